"""Layer settings as users write them, and the embeddings of encoders, layers and poolings."""

from pathlib import Path

import numpy as np
import pytest

from flowbert import SentenceEncoder
from flowbert.data.corpus import Corpus
from flowbert.encoders.position_embeddings import NO_LIMIT
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings, LayerSpecs, layer_specs, load_embeddings

SENTENCES = ["a dog runs", "the cat sleeps on the mat"]


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (None, ()),
        (-1, (-1,)),
        ("last", ("last",)),
        ("1,-1", ("1,-1",)),
        ([1, -1], ([1, -1],)),
        ("last,first_last", ("last", "first_last")),
        ("last,3", ("last", "3")),
        (["last", "first_last", [1, 2, 4]], ("last", "first_last", [1, 2, 4])),
        ([[1], [1, 2]], ([1], [1, 2])),
    ],
)
def test_numbers_alone_are_one_setting(given: LayerSpecs, settings: tuple[object, ...]) -> None:
    assert layer_specs(given) == settings


def test_every_pooling_and_layer_setting_is_that_of_an_encoder(tmp_path: Path) -> None:
    settings = EncoderSettings(layers=["singles", [1, 4]], pooling="mean,max")
    found = load_embeddings(settings, store_dir=tmp_path)
    named = [(each.columns["pooling"], each.columns["layers"]) for each in found]
    layers = ["0", "1", "2", "3", "last", "first_last"]
    assert named == [(pooling, name) for pooling in ("mean", "max") for name in layers]
    for each in found:
        encoder = SentenceEncoder.from_pretrained(
            "builtin-sample", layers=each.columns["layer_numbers"], pooling=each.columns["pooling"]
        )
        assert each.key == encoder.key()
        assert np.allclose(each.embed(SENTENCES), encoder.encode(SENTENCES), atol=1e-5)


def test_an_encoder_that_is_loaded_is_taken_as_it_is(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="last2", max_length=7)
    (mine,) = load_embeddings(encoder, store_dir=tmp_path)
    (loaded,) = load_embeddings(EncoderSettings(layers="last2", max_length=7), store_dir=tmp_path)
    assert (mine.columns, mine.key, mine.dim) == (loaded.columns, loaded.key, loaded.dim)


def test_no_limit_is_as_long_as_the_encoder_reads(tmp_path: Path) -> None:
    (found,) = load_embeddings(EncoderSettings(max_length=0), store_dir=tmp_path)
    longest = SentenceEncoder.from_pretrained("builtin-sample").longest
    assert found.columns["max_length"] == (longest or NO_LIMIT)


def test_words_are_weighted_by_their_frequency_in_the_tasks(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 0\ndog 0 1\n")
    (unweighted,) = load_embeddings(EncoderSettings(str(vectors), pooling="sif:a=0.5"), store_dir=tmp_path / "store")
    assert unweighted.with_counts is not None
    found = unweighted.with_counts(Corpus.of("target", ["a a dog", "a"]))
    weights = 0.5 / (0.5 + 0.75), 0.5 / (0.5 + 0.25)
    assert found.columns["pooling"] == "sif:a=0.5 of target"
    assert np.allclose(found.embed(["a dog"]), [[weights[0] / 2, weights[1] / 2]], atol=1e-6)
    with pytest.raises(UserError, match=r"allowed with word vectors .*: mean, sif"):
        load_embeddings(EncoderSettings(str(vectors), pooling="idf"), store_dir=tmp_path / "store")
