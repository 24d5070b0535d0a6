"""Inside of a caller's autocast, what is float32 stays float32, whatever the number of threads."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sentence_transformers import SentenceTransformer

from flowbert import Model, SentenceEncoder
from flowbert.encoders import Embedder
from flowbert.encoders.folders import locate
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.maps import MAPS, Moments
from flowbert.metrics import Alignment, MeanCosine, VectorMetric
from flowbert.tasks import load_task
from flowbert.threads import use_threads
from helpers import fit, rows

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

X = rows(700, 6).astype(np.float32)
ENCODER = SentenceEncoder("builtin-sample")
LIBRARY = SentenceTransformerEncoder(
    SentenceTransformer(str(locate("builtin-sample").folder), device="cpu")
)


def metric(made, *tensors):
    made.update(*map(torch.from_numpy, tensors))
    return made.compute()


def map_rows(name):
    return fit(MAPS.make(name), X).transform(X)


COMPUTATIONS: dict[str, Any] = {
    "similarity": lambda: ENCODER.similarity(X, X[:9]),
    "encode": lambda: ENCODER.encode(["a dog runs", "a man rides a horse"]),
    "encode of sentence-transformers": lambda: LIBRARY.encode(["a dog runs"]),
    "moments": lambda: Moments(6).update(X).covariance(),
    "uniformity": lambda: metric(VectorMetric("uniformity"), X),
    "isoscore": lambda: metric(VectorMetric("isoscore"), X),
    "mean cosine": lambda: metric(MeanCosine(), X),
    "alignment": lambda: metric(Alignment(), X[:100], X[100:200]),
    "items of a task": lambda: load_task("SAMPLE").items(
        torch.from_numpy(rows(len(load_task("SAMPLE").sentences)))
    ),
    **{
        name: partial(map_rows, name)
        for name in MAPS
        if name != "flow"  # tests/flows, tests/maps/test_flow_module.py
    },
}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_autocast_changes_nothing(name):
    compute = COMPUTATIONS[name]
    with use_threads(1):  # other threads would not inherit it
        expected = compute()
        with torch.autocast("cpu", torch.bfloat16):
            found = compute()
    assert found.dtype == expected.dtype
    assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [np.float16, np.int32, ">f4"])
def test_similarity_is_float32_for_vectors_of_any_type(kind):
    x = np.round(10 * X)[:50].astype(kind)
    expected = ENCODER.similarity(x.astype(np.float32), X)
    for vectors in (x, x[::-1][::-1], x.tolist()):
        assert_array_equal(ENCODER.similarity(vectors, X), expected)
    if kind != ">f4":
        assert_array_equal(ENCODER.similarity(torch.from_numpy(x), X), expected)
    assert expected.dtype == torch.float32
    assert Model.similarity is Embedder.similarity
