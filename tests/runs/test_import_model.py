"""Others' maps as a run folder: encode, export and evaluate take it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.bertflow import latents, random_state
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder, import_model, load
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.io.run_folder import RunFolder

SENTENCES = ["a cat runs", "the dog sleeps", "été"]


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "encoder")


@pytest.fixture
def whitening(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "w.npz", kernel=random.normal(size=(16, 5)), bias=random.normal(size=(1, 16)))
    return tmp_path / "w.npz"


def test_a_whitening(encoder: Path, whitening: Path, tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "v.npy"
    options = ["--encoder.path", str(encoder), "--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    main(["import", "--from", str(whitening), *options, "--run_dir", str(run)])
    main(["encode", "--model", str(run), "--sentences", json.dumps(SENTENCES), "--output", str(output)])
    raw = SentenceEncoder.from_pretrained(str(encoder), layers="first_last").encode(SENTENCES)
    with np.load(whitening) as content:
        expected = (raw + content["bias"]) @ content["kernel"]
    np.testing.assert_allclose(np.load(output), expected, rtol=1e-4, atol=1e-4)


def test_a_whitening_of_layers_that_were_added(encoder: Path, tmp_path: Path) -> None:
    settings = {"path": str(encoder), "layers": "first_last", "pooling": "mean"}
    raw = SentenceEncoder.from_pretrained(str(encoder), layers="first_last").encode(SENTENCES)
    random = np.random.default_rng(0)
    kernel, bias = random.normal(size=(16, 5)), random.normal(size=(1, 16))
    np.savez(tmp_path / "w.npz", kernel=kernel, bias=bias)
    made = load(import_model(tmp_path / "w.npz", settings, tmp_path / "run", scale=2))
    np.testing.assert_allclose(made.encode(SENTENCES), (2 * raw + bias) @ kernel, rtol=1e-4, atol=1e-4)
    for source, scale in (("w.npz", 0), ("glow.bin", 2)):
        with pytest.raises(UserError, match=f"scale: received {scale}; allowed: above 0 for kernel and bias, 1 for a"):
            import_model(tmp_path / source, settings, tmp_path / "other", scale=scale)


@pytest.mark.parametrize(
    ("pooling", "layers", "here"), [("first-last-avg", (0, 3), "mean"), ("cls", (3,), "cls"), (None, None, None)]
)
def test_a_flow_and_what_its_folder_says_of_layers(
    encoder: Path, tmp_path: Path, pooling: str | None, layers: tuple[int, ...] | None, here: str | None
) -> None:
    theirs, state = tmp_path / "theirs", random_state(16, 2, 3, 8)
    theirs.mkdir()
    torch.save(state, theirs / "glow.bin")
    settings = {"path": str(encoder)}
    if pooling is None:
        with pytest.raises(UserError, match=r"layers: received none, and .* does not say; needed: what the map was"):
            import_model(theirs, settings, tmp_path / "run")
        with pytest.raises(UserError, match=r"pooling: received none"):
            import_model(theirs, {**settings, "layers": "last"}, tmp_path / "run")
        return
    (theirs / "config.json").write_text(json.dumps({"pooling": pooling}))
    for source in (theirs, theirs / "glow.bin"):
        embedder = load(import_model(source, settings, tmp_path / f"run-{source.name}"))
        assert (embedder.encoder.layers, embedder.encoder.pooling) == (layers, here)
        raw = torch.from_numpy(embedder.encoder.encode(SENTENCES))
        np.testing.assert_allclose(embedder.encode(SENTENCES), latents(state, raw), rtol=1e-4, atol=1e-4)


def test_an_imported_flow_is_compared(tmp_path: Path) -> None:
    torch.save(random_state(128, 2, 1, 4), tmp_path / "glow.bin")
    options = ["--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    main(["import", "--from", str(tmp_path / "glow.bin"), *options, "--run_dir", str(tmp_path / "run")])
    more = ["--methods", "raw,flow", "--flow", str(tmp_path / "run"), "--bootstrap", "0"]
    main(["evaluate", *options, *more, "--output", str(tmp_path / "r.json")])
    found = {row["method"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    assert found == {"raw", "flow"}


def test_mistakes_are_one_line_and_write_nothing(encoder: Path, whitening: Path, tmp_path: Path) -> None:
    settings = {"path": str(encoder), "layers": "last", "pooling": "mean"}
    np.savez(tmp_path / "wide.npz", kernel=np.eye(20), bias=np.zeros(20))
    run = tmp_path / "run"
    for source, options, message in (
        (tmp_path / "wide.npz", settings, r"wide\.npz: a map of vectors of size 20; allowed with encoder .*: 16"),
        (whitening, {**settings, "pooling": "idf"}, "pooling: received idf, which needs token counts"),
        (tmp_path / "none.npz", settings, "No such file"),
    ):
        with pytest.raises(UserError, match=message):
            import_model(source, options, run)
    assert not run.exists()
    import_model(whitening, settings, run)
    with pytest.raises(UserError, match=r"run_dir: .* holds a model; allowed: another"):
        import_model(whitening, settings, run)
    assert RunFolder(run).fitted_maps() == ["whitening"]
