"""What a fit leaves behind, loaded again: never with wrong vectors, and on the device of what it is given."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder, Whitening, load
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.flows import Glow, save_flow
from flowbert.methods.embedder import load_map, save_encoder, saved_encoder, transform_of

SENTENCES = ["a cat runs", "the dog sleeps", "été"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder as ``fit`` leaves it, and the encoder it was fitted on, at ``encoder``."""
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "encoder")))
    x = torch.randn(100, 16, generator=torch.Generator().manual_seed(0))
    flow = Glow(16, levels=1, depth=1, width=4)
    flow.initialize(x)
    model = tmp_path / "run" / "model"
    save_flow(flow, model, {})
    Whitening().fit(x).save(model / "whitening.safetensors")
    save_encoder(model, encoder)
    return tmp_path / "run"


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x04
    path.write_bytes(content)


def encode(run: Path, method: str, *options: str) -> None:
    output = str(run.parent / "v.npy")
    main(["encode", "--model", str(run), "--method", method, "--sentences", '["a cat"]', "--output", output, *options])


def test_an_intact_run_encodes(run: Path) -> None:
    for method in ("raw", "whitening", "flow"):
        encode(run, method)
        assert np.load(run.parent / "v.npy").shape == (1, 16)


@pytest.mark.parametrize(
    ("file", "method"), [("flow.safetensors", "flow"), ("whitening.safetensors", "whitening"), ("encoder.json", "flow")]
)
@pytest.mark.parametrize("place", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_one_flipped_bit_is_one_line(
    run: Path, file: str, method: str, place: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "model" / file
    flip(path, int(place * path.stat().st_size))
    with pytest.raises(SystemExit) as stop:
        encode(run, method)
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert str(path) in shown
    assert "damaged" in shown or "format" in shown
    assert "again" in shown
    assert shown.strip().count("\n") == 0
    assert not (run.parent / "v.npy").exists()


def test_no_bit_of_the_encoder_file_can_flip_unseen(run: Path) -> None:
    path = run / "model" / "encoder.json"
    good = path.read_bytes()
    expected = saved_encoder(run)
    assert "digest" not in expected
    for place in range(len(good)):
        flip(path, place)
        with pytest.raises(UserError, match=r"encoder\.json: .*damaged.*run `fit` again"):
            saved_encoder(run)
        path.write_bytes(good)
    for content in (good[:-5], b"", b"[]", b"{}", b"3", good.replace(b'  "digest"', b'  "other"')):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"encoder\.json: (.*damaged|holds (list|int); needed: ).*run `fit` again"):
            saved_encoder(run)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-05'),
        ("tokenizer.json", '"cat"', '"caf"'),
        ("model.safetensors", "", ""),
    ],
)
def test_the_file_of_the_encoder_that_differs_is_named(run: Path, file: str, old: str, new: str) -> None:
    other = run.parent / "other"
    shutil.copytree(run.parent / "encoder", other)
    load(run, path=str(other))
    if old:
        text = (other / file).read_text()
        assert old in text
        (other / file).write_text(text.replace(old, new))
    else:
        flip(other / file, 20_000)  # the last tensor is the pooler, which is not used
    message = rf"belongs to another encoder \([a-z]+: .* there, .* here \({file}.* differs\)\)"
    with pytest.raises(UserError, match=message):
        load(run, path=str(other))


def test_settings_of_a_trained_encoder_that_are_damaged(run: Path) -> None:
    for content in ("{", "[1]"):
        (run.parent / "encoder" / "flowbert.json").write_text(content)
        with pytest.raises(UserError, match=r"flowbert\.json: .*needed: (dict, )?the file as it was written"):
            SentenceEncoder.from_pretrained(str(run.parent / "encoder"))


@pytest.mark.parametrize("method", ["flow", "whitening"])
def test_maps_give_float32_where_their_input_lies(run: Path, method: str) -> None:
    transform = transform_of(load_map(run, method)[0])
    x = torch.randn(5, 16)
    for dtype in (torch.float32, torch.float64):
        y = transform(x.to(dtype))
        assert (y.device, y.dtype) == (x.device, torch.float32)


@pytest.mark.parametrize("method", ["raw", "whitening", "flow"])
def test_encode_has_the_arguments_of_sentence_transformers(run: Path, method: str) -> None:
    embedder = load(run, method)
    vectors = embedder.encode(SENTENCES)
    assert vectors.shape == (3, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(embedder.encode(SENTENCES, batch_size=2), vectors, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(embedder.encode(SENTENCES[1]), vectors[1], rtol=1e-4, atol=1e-5)
    tensor = embedder.encode(SENTENCES, convert_to_tensor=True, truncate_dim=5, normalize_embeddings=True)
    assert isinstance(tensor, torch.Tensor)
    cut = vectors[:, :5] / np.linalg.norm(vectors[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(tensor.numpy(), cut, rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="batch_size: received 0; allowed: a whole number of at least 1"):
        embedder.encode(SENTENCES, batch_size=0)
    with pytest.raises(UserError, match="truncate_dim: received -1; allowed: a whole number of at least 1"):
        embedder.encode(SENTENCES, truncate_dim=-1)
    with pytest.raises(UserError, match="no sentence"):
        embedder.encode([])


def test_without_a_name_the_flow_is_taken_or_the_only_map(run: Path) -> None:
    assert isinstance(load(run).fitted, Glow)
    (run / "model" / "flow.safetensors").unlink()
    assert isinstance(load(run).fitted, Whitening)
    assert load(run.parent / "encoder").fitted is None
    with pytest.raises(UserError, match=r"no such folder; allowed: the run folder of a finished `fit`, or a hub name"):
        load(run / "none")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["flow", "whitening"])
def test_maps_follow_their_input_to_the_gpu(run: Path, method: str) -> None:
    transform = transform_of(load_map(run, method)[0])
    x = torch.randn(5, 16)
    expected = transform(x)
    there = transform(x.cuda())
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), expected, atol=1e-4, rtol=1e-4)
    assert transform(x).device.type == "cpu"
    embedder = load(run, method)
    vectors = embedder.encode(SENTENCES)
    embedder.encoder.to("cuda")
    torch.testing.assert_close(
        torch.from_numpy(embedder.encode(SENTENCES)), torch.from_numpy(vectors), atol=1e-3, rtol=1e-3
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_latents_come_back_to_where_the_rows_are() -> None:
    flow, x = Glow(16, levels=1, depth=1, width=4), torch.randn(5, 16)
    assert flow.latents(x.cuda()).device.type == "cuda"
    assert flow.cuda().latents(x).device.type == "cpu"
