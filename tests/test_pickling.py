"""A model passes between processes in memory, whatever it consists of."""

import pickle

import numpy as np
import pytest
import transformers
from packaging.version import Version
from sentence_transformers import SentenceTransformer
from sklearn.decomposition import PCA

from encoders.tiny import DENSE, SENTENCES, add_modules, tiny_encoder, write_tiny
from experiments.small import write_words
from extras.export.models import CHAINS, TEXTS, fit_map
from flowbert.encoders import SentenceEncoder, load_encoder
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.extras.word_vectors import WordVectors
from flowbert.maps import Chain, as_map
from flowbert.model import Model
from flowbert.vectors import EmbeddingCache, as_vectors
from helpers import refused

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")


def transformers_folder(folder, pooling):
    path = write_tiny(folder)
    return SentenceEncoder(path, pooling=pooling, count_over=TEXTS, layers="last")


def words_file(folder):
    file = write_words(folder / "words.txt", ["a cat", "the dog"])
    return WordVectors(file, pooling="sif", count_over=TEXTS)


def published_folder(folder):
    path = add_modules(write_tiny(folder), ("Pooling", {}), DENSE)
    return load_encoder(path)


def loaded_model(folder):
    path = add_modules(write_tiny(folder), ("Pooling", {}))
    return SentenceTransformerEncoder(SentenceTransformer(str(path)))


ENCODERS = {
    "sif": lambda folder: transformers_folder(folder, "sif"),
    "pooler": lambda folder: transformers_folder(folder, "cls_pooler"),
    "words, sif": words_file,
    "sentence-transformers": published_folder,
    "loaded sentence-transformers": loaded_model,
}


@pytest.mark.skipif(
    Version(transformers.__version__) < Version("5.2"),
    reason="transformers adds hooks in a pass from 5.2 on",
)
def test_a_network_that_is_pickled_stays_as_it_is():
    """Other threads may use it at the same time."""
    encoder = tiny_encoder("llama")
    encoder.encode(SENTENCES)

    def hooks():
        return [list(x._forward_hooks.items()) for x in encoder.backbone.modules()]

    before = hooks()
    assert any(before)
    pickle.dumps(encoder)
    assert hooks() == before


@pytest.mark.parametrize("encoder", ["bert", "llama", *ENCODERS])
def test_an_encoder_before_and_after_it_has_encoded(encoder, tmp_path):
    known = encoder in ENCODERS
    made = ENCODERS[encoder](tmp_path) if known else tiny_encoder(encoder)
    packed = pickle.dumps(made)
    expected = made.encode(SENTENCES)
    for each in (packed, pickle.dumps(made)):
        passed = pickle.loads(each)
        assert np.array_equal(passed.encode(SENTENCES), expected)
        assert passed.identity == made.identity
        if encoder == "loaded sentence-transformers":
            refused("^encoder: .*object in memory", Model(passed).save, tmp_path)
    assert np.array_equal(made.encode(SENTENCES), expected)


def test_a_model_with_maps():
    """Maps of each kind are pickled by scikit-learn's checks (tests/maps/test_estimators.py)."""
    encoder = tiny_encoder()
    rows = encoder.encode(TEXTS)
    fitted = fit_map(CHAINS[-1], rows)
    chain = Chain.of(fitted, as_map(PCA(3)).fit(fitted.transform(rows)))
    model = Model(encoder, chain)
    passed = pickle.loads(pickle.dumps(model))
    assert passed.map_name == model.map_name
    assert np.array_equal(passed.encode(SENTENCES), model.encode(SENTENCES))


def test_vectors_in_memory_and_in_the_cache(tmp_path):
    encoder = tiny_encoder()
    cached = EmbeddingCache(tmp_path).rows(encoder, SENTENCES)
    for vectors in (cached, as_vectors(cached[:]), cached.subset(np.array([2, 0]))):
        assert np.array_equal(pickle.loads(pickle.dumps(vectors))[:], vectors[:])
