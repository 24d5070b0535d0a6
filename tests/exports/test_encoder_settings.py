"""What an encoder is told beside layers and pooling leaves with it, or is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder
from torch import nn

from flowbert import SentenceEncoder, Whitening, export, load
from flowbert.errors import UserError
from flowbert.exports.check import LARGEST_DIFFERENCE
from flowbert.flows import Glow
from flowbert.methods import Embedder

SENTENCES = ["the cat sleeps", "dog", "a small bird sings"]


def test_a_prompt_leaves_with_the_model(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "encoder")), prompt="the big ")
    model = Embedder(encoder, Whitening(shrinkage=0.5).fit(encoder.encode(SENTENCES)))
    folder = str(export(model, tmp_path / "exported", check=False).folder)
    expected = model.encode(SENTENCES)
    peer = sentence_transformers.SentenceTransformer(folder, device="cpu")
    np.testing.assert_allclose(peer.encode(SENTENCES), expected, atol=1e-4)
    np.testing.assert_allclose(load(folder).encode(SENTENCES), expected, atol=1e-5)
    assert SentenceEncoder.from_pretrained(folder).prompt == "the big "


def trained_elsewhere(folder: Path, *modules: Any) -> str:
    """A folder as sentence-transformers itself writes it: an encoder, the mean, and modules after it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(make_encoder(folder / "encoder")))
    SentenceTransformer(modules=[transformer, Pooling(16, "mean"), *modules], device="cpu").save(str(folder / "peer"))
    return str(folder / "peer")


def dense(size: int, out: int, activation: nn.Module | None = None, **options: Any) -> Any:
    from sentence_transformers.base.modules import Dense

    torch.manual_seed(size)
    return Dense(size, out, activation_function=activation or nn.Identity(), **options)


def normalize() -> Any:
    from sentence_transformers.base.modules import Normalize

    return Normalize()


OWN: dict[str, tuple[Callable[[], list[Any]], str, list[str]]] = {  # modules, map, and what stands behind the pooling
    "all without a map": (
        lambda: [dense(16, 6, nn.Tanh()), dense(6, 4, bias=False, use_residual=True), normalize()],
        "raw",
        ["Dense", "Dense", "Normalize"],
    ),
    "affine before whitening": (
        lambda: [dense(16, 6, nn.Tanh()), dense(6, 6, use_residual=True)],
        "whitening",
        ["Dense", "Dense"],
    ),
    "scaled before whitening": (lambda: [normalize()], "whitening", ["Normalize", "Dense"]),
    "affine before a flow": (lambda: [dense(16, 12), dense(12, 8)], "flow", ["Dense", "Dense", "Pooling", "Dense"]),
}


def with_map(folder: str, kind: str) -> Embedder:
    encoder = SentenceEncoder.from_pretrained(folder, modules="all")
    rows = torch.randn(200, encoder.dim, generator=torch.Generator().manual_seed(1))
    if kind == "flow":
        flow = Glow(encoder.dim, levels=1, depth=1, width=4)
        flow.initialize(rows)
        for parameter in flow.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
        return Embedder(encoder, flow)
    return Embedder(encoder, Whitening(n_components=3).fit(rows) if kind == "whitening" else None)


@pytest.mark.parametrize("name", OWN)
def test_modules_of_its_own_leave_with_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer
    modules, kind, behind = OWN[name]
    here = lambda folder, texts: peer(str(folder), device="cpu").encode(texts)  # noqa: E731
    monkeypatch.setattr("flowbert.exports.check.vectors_elsewhere", here)  # a process of its own takes seconds
    model = with_map(trained_elsewhere(tmp_path, *modules()), kind)
    made = export(model, tmp_path / "exported")
    assert made.difference is not None
    assert made.difference < LARGEST_DIFFERENCE
    listed = [each["type"].split(".")[-1] for each in json.loads((made.folder / "modules.json").read_text())]
    assert listed == ["Transformer", "Pooling", *behind]
    if kind == "flow":
        with pytest.raises(UserError, match="has Transformer, Pooling, Dense, Dense, Pooling, Dense; allowed"):
            load(made.folder)
    else:  # one encoder with modules of its own, the map being one of them
        there = SentenceEncoder.from_pretrained(str(made.folder), modules="all").encode(SENTENCES)
        np.testing.assert_allclose(there, model.encode(SENTENCES), atol=1e-4)


def test_a_flow_behind_what_is_not_affine_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    for name, module, shown in (("a", dense(16, 8, nn.Tanh()), "Dense with Tanh"), ("b", normalize(), "Normalize")):
        model = with_map(trained_elsewhere(tmp_path / name, module), "flow")
        with pytest.raises(UserError, match=f"modules: received a flow behind the encoder's {shown}; allowed: .*onnx"):
            export(model, tmp_path / "exported")
        assert not (tmp_path / "exported").exists()


@pytest.mark.alone
def test_modules_of_its_own_in_onnx(tmp_path: Path) -> None:
    for package in ("sentence_transformers", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed (pip install 'flowbert[export,onnx]')")
    model = with_map(trained_elsewhere(tmp_path, dense(16, 8, nn.Tanh()), normalize()), "flow")
    made = export(model, tmp_path / "exported", format="onnx")
    assert made.difference is not None
    assert made.difference < 1e-5
