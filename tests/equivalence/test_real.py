"""The grid of maps on real encoders and the STS benchmark."""

import pytest

from equivalence.test_maps import check_figures, check_vectors
from equivalence.ways import FIGURES, VECTORS, Lab
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
def real_lab(request, real, tmp_path_factory):
    encoder = EncoderOptions(str(real / "models" / request.param), layers="first_last")
    senteval = real / "data" / "senteval"
    return Lab(tmp_path_factory.mktemp("real"), encoder, "STSB", senteval, SENTENCES)


@pytest.mark.parametrize("way", [*FIGURES, *VECTORS], ids=lambda way: way.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_figures(method, way, real_lab):
    check = check_vectors if way in VECTORS else check_figures
    check(real_lab, method, way)
