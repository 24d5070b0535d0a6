"""Maps fitted on other text than a task's: told where raw vectors are better."""

import warnings

import numpy as np
import pytest
import torch

from flowbert.data.sample import sample_corpus
from flowbert.data.scored_pairs import STSData, load_sts
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.experiments.plan import Method
from flowbert.fitting.comparison import warn_of_transfer
from flowbert.maps import Whitening
from flowbert.tasks import STS, Lexical

SAMPLE = load_sts("SAMPLE")


DIM = 128  # of the built-in encoder


def affine(weight, bias):
    """The map y = (x + bias) W."""
    state = {"center_": -bias, "weight_": weight}
    tensors = {name: torch.tensor(array) for name, array in state.items()}
    return Whitening().set_state({**tensors, "n_features_in_": DIM})


def one_direction():
    """A map that keeps one dimension of all, beside what is constant but for 1e-9."""
    kernel, bias = np.zeros((DIM, 2)), np.zeros(DIM)
    kernel[0, 0], kernel[1, 1], bias[1] = 1, 1e-9, 1e9
    return affine(kernel, bias)


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder(layers="first_last")


def told(encoder, corpus, tasks, **maps):
    fitted = [Method(name, each) for name, each in maps.items()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FlowbertWarning)
        warn_of_transfer(corpus, tasks, encoder, fitted)
    return [str(warning.message) for warning in caught]


def test_only_a_map_that_costs_points_is_told(encoder):
    whitening = Whitening().fit(encoder.encode(sample_corpus()[:1500]))
    tasks = [STS(SAMPLE)]
    maps = {"whitening": whitening, "one": one_direction()}
    (text,) = told(encoder, "news.txt", tasks, **maps)
    assert text.startswith("corpus: on the development pairs of SAMPLE raw vectors")
    assert "better than one fitted on news.txt, by " in text


def test_a_difference_within_noise_is_not_told(encoder):
    noise = np.random.default_rng(0).normal(size=(DIM, DIM))
    nearly = affine(np.eye(DIM) + 0.0001 * noise, np.zeros(DIM))
    assert told(encoder, "news.txt", [STS(SAMPLE)], nearly=nearly) == []


def test_without_development_pairs_there_is_nothing_to_tell(encoder):
    test_only = STSData("TEST", {"test": SAMPLE.splits["test"]})
    tasks = [STS(test_only), Lexical(SAMPLE)]
    assert told(encoder, "news.txt", tasks, one=one_direction()) == []
