"""What a fitted map holds is what its file holds, for every map and chains of them."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from flowbert.extras.maps.transformer import SklearnTransformer
from flowbert.maps import (
    MAPS,
    AffineMap,
    Chain,
    Standardization,
    Whitening,
    as_map,
    load_map,
    make_map,
    save_map,
)
from helpers import pairs_of, refused, rows

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

FLOW = "flow:steps=2:depth=1:levels=1:width=4"
TEXTS = [
    *(name for name in MAPS if name != "flow"),
    "whitening:shrinkage=0.1",
    FLOW,
    "flow:steps=2:depth=1:coupling=affine:init=whitening:noise=0.0",
    f"{FLOW}:prior=[examples.extend.prior.StudentT:degrees=5]",
    "whitening-4+standardization",
    "whitening-5+learned-removal-2",
    f"whitening-4+{FLOW}",
]


def make_fitted(text, x):
    made = make_map(text)
    for part in made.parts:
        part.set_run_parameters(0, "cpu")
    left, right, scores = pairs_of(np.asarray(x))
    if isinstance(x, pd.DataFrame):
        left, right = (pd.DataFrame(each, columns=x.columns) for each in (left, right))
    return made.fit(x, pairs=(left, right, scores) if made.supervised else None)


def attributes(fitted):
    """What transforming, saving and reporting use."""
    x = pd.DataFrame(rows(20, 6, seed=1), columns=list("abcdef"))
    mapped = fitted.transform(x)
    return {
        "text": fitted.text,
        "name": fitted.name,
        "parameters": [part.used_parameters() for part in fitted.parts],
        "mapped": mapped,
        "tensors": fitted.transform(torch.from_numpy(rows(20, 6, seed=1))),
        "back": fitted.inverse_transform(mapped),
        "state": fitted.get_state(),
        "invalid_reason": fitted.invalid_reason,
        "names": list(fitted.get_feature_names_out()),
        "names in": list(fitted.feature_names_in_),
        "features": fitted.n_features_in_,
        "size": fitted.output_dim(6),
        "supervised": fitted.supervised,
        "seeded": fitted.seeded,
        "fitted": fitted.is_fitted,
    }


def equal(one, other):
    if isinstance(one, dict):
        same = [equal(one[name], other[name]) for name in one]
        return one.keys() == other.keys() and all(same)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and bool(np.array_equal(one, other))


@pytest.mark.parametrize(
    ("text", "size"),
    # The last ones have too few rows, which they say.
    [*((text, 100) for text in TEXTS), ("whitening", 4), ("nulling", 4), (FLOW, 4)],
)
def test_a_loaded_map_is_the_fitted_one(text, size, tmp_path):
    x = pd.DataFrame(rows(size, 6), columns=list("abcdef"))
    fitted, path = make_fitted(text, x), tmp_path / "map.safetensors"
    save_map(fitted, path)
    loaded = load_map(path)
    again = clone(fitted).set_state(fitted.get_state())
    expected = attributes(fitted)
    for other in (loaded, again):
        found = attributes(other)
        assert [
            each for each in expected if not equal(found[each], expected[each])
        ] == []
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(x.rename(columns={"a": "z"}))
    save_map(again, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


class Doubled(AffineMap):
    """A user's own map."""

    def __init__(self, factor: float = 2.0):
        self.factor = factor

    def solve(self, moments):
        self.largest_: object = 3.0
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return moments.mean, identity * self.factor


def test_what_a_fit_sets_is_saved_or_refused(tmp_path):
    path = tmp_path / "map.safetensors"
    fitted = Doubled().fit(rows(50, 4))
    save_map(fitted, path)
    assert vars(load_map(path))["largest_"] == 3.0
    fitted.largest_ = [3.0]
    refused("largest_: received 'list'; expected a tensor", save_map, fitted, path)


def test_a_chain_is_a_transformer_of_scikit_learn():
    x = pd.DataFrame(rows(80, 6), columns=list("abcdef"))
    chain = Chain.of(Whitening(4), Standardization())
    assert chain.get_params()["whitening__n_components"] == 4
    copied = clone(chain).set_params(whitening__n_components=3)
    assert copied.text == "whitening-3+standardization"
    assert chain.text == "whitening-4+standardization"
    refused("flow: is not affine", make_fitted(FLOW, rows(50, 6)).affine)
    expected = make_pipeline(Whitening(4), Standardization()).fit(x).transform(x)
    np.testing.assert_array_equal(chain.fit_transform(x), expected)
    names = [f"standardization{n}" for n in range(4)]
    framed = chain.set_output(transform="pandas").fit(x).transform(x)
    assert [*framed.columns] == [*chain.get_feature_names_out()] == names
    np.testing.assert_array_equal(
        chain[:1].transform(x), chain["whitening"].transform(x)
    )
    outer = make_pipeline(Standardization(), chain)
    outer.set_params(chain__whitening__shrinkage=0.5)
    assert outer.fit(x).transform(x).shape == (80, 4)


def test_what_is_taken_for_a_map():
    whitening = Whitening(4)
    assert as_map(whitening) is whitening
    pipeline = make_pipeline(make_pipeline(whitening, "passthrough"), PCA(2))
    chain = as_map(pipeline)
    assert [type(part) for part in chain.parts] == [Whitening, SklearnTransformer]
    assert chain.parts[0] is whitening
    assert chain.text == "whitening-4+PCA(n_components=2)"
    for wrong in (
        None,
        3,
        Whitening,
        make_pipeline("passthrough"),
        torch.nn.Linear(2, 2),
    ):
        refused("methods: received", as_map, wrong)
