"""A folder of stock modules gives the model's vectors, for every pooling and map; what it cannot is refused by name."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from helpers.encoders import make_encoder
from safetensors.torch import load_file, save_file

from flowbert import SentenceEncoder, Whitening, load, load_task
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.exports.check import LARGEST_DIFFERENCE, trial_sentences
from flowbert.exports.compiled import CompiledMap
from flowbert.exports.folder import MODES, write_folder
from flowbert.flows import Glow
from flowbert.methods import Embedder, make_calibration
from flowbert.methods.chain import Chain
from flowbert.methods.embedder import Fitted
from flowbert.progress import Step
from flowbert.runs.export import export

sentence_transformers = pytest.importorskip("sentence_transformers")
SENTENCES = load_task("SAMPLE").sentences()[:600]


def encoder_with(layers: str | list[int], pooling: str) -> SentenceEncoder:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers=layers, pooling=pooling, max_length=40)
    encoder.use_counts(encoder.count_tokens(SENTENCES, "a sample"))
    return encoder


def fitted_on(encoder: SentenceEncoder, kind: str) -> Fitted | None:
    rows = torch.from_numpy(encoder.encode(SENTENCES))
    if kind == "flow":
        flow = Glow(encoder.dim, depth=2, width=8)
        flow.initialize(rows)
        with torch.no_grad():
            for name, parameter in flow.named_parameters():
                if name.endswith("weight_out"):  # a coupling starts as nothing
                    parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)), alpha=0.1)
        return flow
    return Whitening(n_components=32, shrinkage=0.1).fit(rows) if kind == "whitening" else None


def cosines(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: npt.NDArray[np.float32] = unit @ unit.T
    return found


@pytest.mark.parametrize(
    ("layers", "pooling", "kind"),
    [
        *(("last", name, "flow") for name in MODES),
        ("first_last", "mean", "raw"),
        ([0, 2], "cls", "whitening"),
        ("embedding_last", "idf:exponent=0.5", "flow"),
        ("embedding_last", "zipf:cls=16", "flow"),
        ("last", "sif:special=true", "whitening"),
        ("last2", "weighted_mean", "raw"),
    ],
)
def test_every_pooling_and_map(layers: str | list[int], pooling: str, kind: str, tmp_path: Path) -> None:
    encoder = encoder_with(layers, pooling)
    model = Embedder(encoder, fitted_on(encoder, kind))
    write_folder(tmp_path, encoder, model.fitted)
    opened = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    texts = trial_sentences(model)[::16]
    assert texts[0] == ""
    assert max(encoder.lengths(texts)) == 40
    there = opened.encode(texts, batch_size=5)
    assert there.shape == (len(texts), opened.get_embedding_dimension())
    np.testing.assert_allclose(cosines(there), cosines(model.encode(texts)), atol=LARGEST_DIFFERENCE, rtol=0)


def test_position_0_under_a_flow_is_that_of_the_first_token_alone(tmp_path: Path) -> None:
    encoder = encoder_with("last", "cls")
    flow = fitted_on(encoder, "flow")
    write_folder(tmp_path, encoder, flow)
    opened = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    features = encoder.tokenize(["a [CLS] runs"])  # the token again, by its name in a text: the limit that is told
    with torch.no_grad():
        states = encoder.backbone(**features).last_hidden_state[0]
    of_both = Embedder(encoder, flow)._mapped(states[[0, 2]].mean(dim=0, keepdim=True).numpy())
    np.testing.assert_allclose(opened.encode(["a [CLS] runs"]), of_both, atol=1e-4)


@pytest.mark.parametrize(("architecture", "prompt"), [("gpt2", ""), ("bert", "a [CLS] ")])
def test_position_0_without_a_token_of_its_own(architecture: str, prompt: str, tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path / "encoder", architecture))
    encoder = SentenceEncoder.from_pretrained(path, pooling="cls", prompt=prompt)
    flow = Glow(encoder.dim, levels=1, depth=1, width=4)
    flow.initialize(torch.randn(50, encoder.dim))
    with pytest.raises(UserError, match=r"pooling: received cls under a flow.*allowed: mean, or format onnx"):
        write_folder(tmp_path / "to", encoder, flow)
    write_folder(tmp_path / "to", encoder, None)  # without a flow the plain mode does


@pytest.fixture
def run(tmp_path: Path) -> Path:
    encoder = encoder_with("first_last", "mean")
    folder = tmp_path / "run"
    export(Embedder(encoder, fitted_on(encoder, "whitening")), folder, check=False)
    return folder


@pytest.mark.alone
def test_it_is_compared_in_another_process_and_loads_here_as_well(
    run: Path, steps: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    again = run.parent / "again"
    main(["export", str(run), "--to", str(again)])
    shown = capsys.readouterr().out
    assert "its map has 4,128 numbers" in shown
    assert float(shown.split()[-1]) < LARGEST_DIFFERENCE
    np.testing.assert_array_equal(load(again).encode(SENTENCES[:9]), load(run).encode(SENTENCES[:9]))
    assert isinstance(load(again).fitted, Whitening)
    counted = {step.what: (step.done, step.total) for step in steps if step.unit == "sentences"}
    assert counted == dict.fromkeys(["Encoding", "Encoding with sentence-transformers"], (256, 256))
    with pytest.raises(SystemExit):
        main(["export", str(run), "--to", str(again)])
    assert "again is there already; allowed: a new folder" in capsys.readouterr().err


def test_another_vector_is_noticed_and_nothing_is_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(folder: Path, *rest: Any, **options: Any) -> CompiledMap | None:
        written = write_folder(folder, *rest, **options)
        file = folder / "3_Dense" / "model.safetensors"
        tensors = load_file(file)
        tensors["linear.bias"][0] += 0.01
        save_file(tensors, file)
        return written

    def opened_here(folder: Path, texts: list[str]) -> npt.NDArray[np.float32]:
        vectors: npt.NDArray[np.float32] = sentence_transformers.SentenceTransformer(str(folder)).encode(texts)
        return vectors

    monkeypatch.setattr(import_module("flowbert.runs.export"), "write_folder", damaged)
    monkeypatch.setattr("flowbert.exports.check.vectors_elsewhere", opened_here)
    with pytest.raises(UserError, match=r"export: cosines differ by up to .*; allowed: 1e-05; nothing is kept"):
        export(run, run.parent / "again")
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_nothing_of_this_machine_is_written(run: Path) -> None:
    for path in run.rglob("*"):
        if path.is_file():
            assert str(Path.home()).encode() not in path.read_bytes(), path
            assert str(run.parent).encode() not in path.read_bytes() or path.name == "README.md", path


def test_what_stock_modules_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    with_pooler = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "encoder")), pooling="cls_pooler")
    with pytest.raises(UserError, match="pooling: received cls_pooler, which no stock module does; allowed: mean, cls"):
        export(Embedder(with_pooler), tmp_path / "a")
    with pytest.raises(UserError, match="dtype: received bfloat16; allowed in a sentence-transformers folder: float32"):
        export(Embedder(SentenceEncoder.from_pretrained("builtin-sample", dtype="bfloat16")), tmp_path / "a")
    with pytest.raises(UserError, match="pooling: idf needs token counts"):
        export(Embedder(SentenceEncoder.from_pretrained("builtin-sample", pooling="idf")), tmp_path / "a")
    with pytest.raises(UserError, match="format: received 'pickle'; allowed: sentence-transformers"):
        export(Embedder(SentenceEncoder.from_pretrained("builtin-sample")), tmp_path / "a", format="pickle")
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]


def test_a_chain_has_no_native_file_and_is_not_taken_for_raw(tmp_path: Path) -> None:
    for layers in ("last", "first_last"):
        encoder = encoder_with(layers, "mean")
        chain = Chain([make_calibration("standardization"), Whitening(n_components=8)]).fit(encoder.encode(SENTENCES))
        export(Embedder(encoder, chain), tmp_path / layers, check=False)
        expected = Embedder(encoder, chain).encode(SENTENCES[:9])
        if layers == "last":
            there = load(tmp_path / layers).encode(SENTENCES[:9])
            np.testing.assert_allclose(cosines(there), cosines(expected), atol=1e-5)
            continue
        with pytest.raises(UserError, match="has Transformer, WeightedLayerPooling, Pooling, Dense; allowed"):
            load(tmp_path / layers)
