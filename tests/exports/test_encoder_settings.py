"""What an encoder is told beside layers and pooling leaves with it, or is refused."""

from pathlib import Path

import numpy as np
import pytest
from helpers.encoders import add_modules, make_encoder

from flowbert import SentenceEncoder, Whitening, export, load
from flowbert.errors import UserError
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


def test_modules_of_its_own_are_refused(tmp_path: Path) -> None:
    folder = add_modules(make_encoder(tmp_path / "encoder"), ("Pooling", {}), ("Normalize", {}))
    encoder = SentenceEncoder.from_pretrained(str(folder), modules="all")
    with pytest.raises(UserError, match="modules: received all; allowed in an export: an encoder with none"):
        export(Embedder(encoder), tmp_path / "exported", check=False)
    assert not (tmp_path / "exported").exists()
