"""The grid of maps on real encoders and the STS benchmark."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivalence.test_maps import TOLERANCE
from equivalence.ways import (
    FIGURES,
    VECTORS,
    Lab,
    differences,
    may_refuse,
    unless_refused,
)
from flowbert.arrays import Floats
from flowbert.encoders import EncoderOptions

# None that learns from labels: some of the benchmark's train pairs are among its test pairs.
METHODS = [
    "flow",
    "whitening",
    "whitening-64:shrinkage=0.1",
    "nulling-3",
    "zca:shrinkage=0.1",
    "whitening-64:shrinkage=0.1+flow",
    "standardization+whitening-32",
]
ENCODERS = ["bert-mini-mlm", "minilm-mlm"]
SENTENCES = 2000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real,
    pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning"),
]


@pytest.fixture(scope="session", params=ENCODERS)
def real_lab(
    request: pytest.FixtureRequest, real: Path, tmp_path_factory: pytest.TempPathFactory
) -> Lab:
    encoder = EncoderOptions(str(real / "models" / request.param), layers="first_last")
    senteval = real / "data" / "senteval"
    return Lab(tmp_path_factory.mktemp("real"), encoder, "STSB", senteval, SENTENCES)


@pytest.mark.parametrize("way", FIGURES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_figures(
    method: str, way: Callable[[Lab, str], pd.DataFrame], real_lab: Lab
) -> None:
    rows = unless_refused(way, real_lab, method)
    if rows is None:
        assert may_refuse(way, method)
    else:
        assert differences(rows, real_lab.reference(method)) == ""


@pytest.mark.parametrize("way", VECTORS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_vectors(method: str, way: Callable[[Lab, str], Floats], real_lab: Lab) -> None:
    vectors = unless_refused(way, real_lab, method)
    if vectors is None:
        assert may_refuse(way, method)
        return
    (items,) = real_lab.fitted(method).results.items.values()
    frame = real_lab.fitted(method).results.frame
    (cell,) = set(frame.loc[frame["method"] == method, "experiment"])
    cosines = real_lab.task.items(vectors)
    np.testing.assert_allclose(cosines, items[cell], rtol=0, atol=TOLERANCE)
