"""Sentences in, vectors out, as a library call: with a fitted model only the encoder's path may be told anew."""

from pathlib import Path

import numpy as np
import pytest

from flowbert import SentenceEncoder, Whitening
from flowbert.errors import UserError
from flowbert.methods.embedder import save_encoder
from flowbert.runs.encode import encode

SENTENCES = ["a dog runs", "the cat sleeps"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with whitening fitted on first_last of the sample encoder."""
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    whitening = Whitening(n_components=8, shrinkage=0.1).fit(encoder.encode([f"a dog runs {n}" for n in range(50)]))
    save_encoder(whitening.save(tmp_path / "run" / "model" / "whitening.safetensors").parent, encoder)
    return tmp_path / "run"


def test_a_fitted_model_has_the_settings_of_its_fit(run: Path, tmp_path: Path) -> None:
    vectors = encode(SENTENCES, model=run, method="whitening", output=tmp_path / "v.npy")
    assert vectors.shape == (2, 8)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), vectors)
    same = encode(SENTENCES, model=run, method="whitening", encoder={"layers": "first_last", "pooling": "mean"})
    np.testing.assert_array_equal(same, vectors)
    raw = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last").encode(SENTENCES)
    np.testing.assert_array_equal(encode(SENTENCES, model=run, method="raw"), raw)


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [("layers", "last", r"\(1, 4\)"), ("pooling", "max", "'mean'"), ("max_length", 7, "128")],
)
def test_other_settings_than_in_the_fit_are_refused(run: Path, name: str, value: object, fitted: str) -> None:
    with pytest.raises(UserError, match=rf"encoder\.{name}: received {value!r}; allowed with .*: {fitted}, as fitted"):
        encode(SENTENCES, model=run, method="whitening", encoder={name: value})


def test_mistakes(run: Path) -> None:
    with pytest.raises(UserError, match="input, sentences: received both or neither"):
        encode()
    with pytest.raises(UserError, match="no sentence"):
        encode([])
    with pytest.raises(UserError, match="method: received 'flow'; allowed with model"):
        encode(SENTENCES, method="flow")
    with pytest.raises(UserError, match="method: received 'flow'; allowed: raw, whitening"):
        encode(SENTENCES, model=run, method="flow")
