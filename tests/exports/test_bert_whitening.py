"""Kernel and bias of BERT-whitening as a model."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.tiny import SENTENCES
from exports.models import TEXTS
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.exports import import_whitening
from flowbert.model import Model
from helpers import refused

OPTIONS = EncoderOptions(layers="first_last", pooling="mean")


def whiten(rows):
    """Kernel and bias as the official code computes them."""
    u, s, _ = np.linalg.svd(np.cov(rows.T))
    return (u @ np.diag(s**-0.5))[:, :16], -rows.mean(axis=0, keepdims=True)


def test_vectors_are_those_of_the_official_code(tmp_path):
    scale = 2.0
    encoder = SentenceEncoder("builtin-sample", layers="first_last")
    kernel, bias = whiten(scale * encoder.encode(TEXTS).astype(np.float64))
    np.save(tmp_path / "kernel.npy", kernel)
    np.save(tmp_path / "bias.npy", bias)
    np.savez(tmp_path / "both.npz", kernel=kernel, bias=bias)
    expected = (scale * encoder.encode(SENTENCES) + bias) @ kernel
    # Vectors are float32, u = 6e-8.
    bound = 1e-6 * float(np.abs(expected).max())
    for source in (tmp_path, tmp_path / "both.npz"):
        run = tmp_path / "runs" / source.name
        import_whitening(source, OPTIONS, run, scale=scale)
        vectors = Model.load(run).encode(SENTENCES)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=bound)


EYE, ZEROS = np.eye(128), np.zeros(128)
FILES: dict[str, dict[str, Any]] = {
    "good.npz": {"kernel": EYE, "bias": ZEROS},
    "names.npz": {"kernel": EYE},
    "shapes.npz": {"kernel": EYE[:64], "bias": ZEROS},
    "nan.npz": {"kernel": EYE, "bias": ZEROS + np.nan},
    "small.npz": {"kernel": EYE[:64], "bias": ZEROS[:64]},
}
BOTH = EncoderOptions(layers=["last", "1"], pooling="mean")
MISTAKES = [
    ({"source": "none.npz"}, r"none\.npz: .*kernel and bias"),
    ({"source": "pickled.npz"}, r"pickled\.npz: .*pickle"),
    ({"source": "text.npz"}, r"text\.npz: "),
    ({"source": "names.npz"}, r"names\.npz: "),
    ({"source": "shapes.npz"}, r"shapes\.npz: .*\(64, 128\)"),
    ({"source": "nan.npz"}, r"nan\.npz: .*finite"),
    ({"source": "small.npz"}, "source: .*64.*128"),
    ({"scale": 0.0}, "scale: .*0"),
    ({"output": "full"}, "output: .*full"),
    ({"encoder": EncoderOptions(pooling="mean")}, "layers: .*none"),
    ({"encoder": EncoderOptions(layers="last")}, "pooling: .*none"),
    ({"encoder": BOTH}, "encoder: .*2"),
]


@pytest.mark.parametrize(("wrong", "message"), MISTAKES)
def test_mistakes(wrong, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, arrays in FILES.items():
        np.savez(name, **arrays)
    Path("pickled.npz").write_bytes(pickle.dumps(FILES))
    Path("text.npz").write_text("kernel")
    Path("full/model").mkdir(parents=True)
    usual = {"source": "good.npz", "encoder": OPTIONS, "output": "run"}
    refused(f"^{message}", import_whitening, **usual | wrong)
    assert not Path("run").exists()
