"""The whole chain in onnxruntime gives the model's own vectors, whatever the batch."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder, Whitening, export
from flowbert.calibration import Calibration
from flowbert.errors import UserError
from flowbert.exports.onnx_model import OnnxEncoder, check_onnx, write_onnx
from flowbert.flows import Glow
from flowbert.methods import Embedder
from flowbert.methods.embedder import Fitted
from flowbert.progress import Step, shown

SENTENCES = ["", "a cat runs", "the big dog sleeps on the mat", "été " * 40, "東京"]


@pytest.fixture
def _packages() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed (pip install 'flowbert[onnx]')")


def make_map(kind: str, encoder: SentenceEncoder) -> Fitted | None:
    """No map, whitening to fewer dimensions, or a flow with parameters moved off their start."""
    vectors = torch.randn(200, encoder.dim, generator=torch.Generator().manual_seed(1))
    if kind == "raw":
        return None
    if kind == "whitening":
        return Whitening(n_components=6).fit(vectors)
    flow = Glow(encoder.dim, levels=2, depth=2, width=8, coupling=kind)
    flow.initialize(vectors)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        for parameter in flow.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return flow


def make_model(folder: Path, kind: str, architecture: str = "bert", pooling: str = "mean") -> Embedder:
    options = {"layers": "last" if pooling == "cls_pooler" else "first_last", "pooling": pooling, "max_length": 30}
    path = str(make_encoder(folder / "encoder", architecture))
    encoder = SentenceEncoder.from_pretrained(path, **options)  # type: ignore[arg-type]
    if encoder.needs_counts:
        encoder.use_counts(encoder.count_tokens(["a cat runs", "the dog runs", "a bird"], "some"))
    return Embedder(encoder, make_map(kind, encoder))


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"format: onnx needs onnx, onnxscript, onnxruntime; needed: pip install"):
        export("builtin-sample", tmp_path / "to", format="onnx")
    assert not (tmp_path / "to").exists()


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    ("kind", "architecture", "pooling"),
    [
        ("raw", "bert", "cls_pooler"),
        ("whitening", "roberta", "max"),
        ("additive", "distilbert", "idf"),
        ("affine", "bert", "last_token"),
    ],
)
def test_its_vectors_are_the_models_own(
    tmp_path: Path, kind: str, architecture: str, pooling: str, steps: list[Step]
) -> None:
    model = make_model(tmp_path, kind, architecture, pooling)
    write_onnx(tmp_path, model)
    opened, expected = OnnxEncoder(tmp_path, threads=1), model.encode(SENTENCES)
    for sizes in ((1,), (2, 3), (5,)):
        np.testing.assert_allclose(opened.encode(SENTENCES, sizes), expected, rtol=1e-3, atol=1e-4)
    with shown():
        assert check_onnx(tmp_path, model) < 1e-4
    counted = {step.what: (step.done, step.total, step.unit) for step in steps}
    assert counted == dict.fromkeys(["Encoding", "Encoding with onnxruntime"], (256, 256, "sentences"))


@pytest.mark.usefixtures("_packages")
def test_what_a_graph_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    for encoder, message in (
        (
            SentenceEncoder.from_pretrained("builtin-sample", prompt="query: "),
            "prompt: received 'query: ', which no graph puts before text; allowed in ONNX: none",
        ),
        (
            SentenceEncoder.from_pretrained("builtin-sample", dtype="bfloat16"),
            "dtype: received bfloat16; allowed in ONNX: float32",
        ),
    ):
        with pytest.raises(UserError, match=message):
            export(Embedder(encoder), tmp_path / "a", format="onnx", check=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_packages")
def test_another_models_vectors_are_refused(tmp_path: Path) -> None:
    model = make_model(tmp_path, "raw")
    write_onnx(tmp_path, model)
    fitted = make_map("whitening", model.encoder)
    assert isinstance(fitted, Calibration)
    with pytest.raises(UserError, match="cosines differ by up to"):
        check_onnx(tmp_path, Embedder(model.encoder, fitted))


@pytest.mark.alone
@pytest.mark.usefixtures("_packages")
def test_the_readmes_snippet_runs_and_int8_is_close_and_small(tmp_path: Path) -> None:
    import onnx

    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    model = Embedder(encoder, make_map("whitening", encoder))
    made = [export(model, tmp_path / kind, format=kind, check=kind == "onnx-int8") for kind in ("onnx", "onnx-int8")]
    text = (made[0].folder / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    known: dict[str, Any] = {}
    exec(code, known)
    expected = model.encode(["A man rides.", "Nobody rides."])
    np.testing.assert_allclose(known["embeddings"], expected, rtol=1e-3, atol=1e-4)
    assert made[1].difference is not None
    assert 1e-4 < made[1].difference < 0.1  # it is quantized, and still the same model
    sizes = [(each.folder / "model.onnx").stat().st_size for each in made]
    assert sizes[1] < 0.4 * sizes[0]
    assert {path.name for path in made[1].folder.iterdir()} == {"model.onnx", "tokenizer.json", "README.md"}
    graph = onnx.load(made[1].folder / "model.onnx").graph
    weights = {each.name for each in graph.initializer}
    stays = [node for node in graph.node if node.op_type in ("MatMul", "Gemm") and weights & set(node.input)]
    assert len(stays) == 1  # the map
