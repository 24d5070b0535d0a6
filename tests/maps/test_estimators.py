"""Every map under scikit-learn's own checks, for numpy and torch alike."""

import math
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_get_feature_names_out_error,
    check_set_output_transform,
    check_transformer_get_feature_names_out,
)

from flowbert.errors import FlowbertWarning
from flowbert.extras.maps.all_but_the_top import LearnedRemoval, RemoveDirections
from flowbert.extras.views import ViewsMap
from flowbert.flows import Glow
from flowbert.maps import (
    MAPS,
    ZCA,
    AffineMap,
    Centering,
    Flow,
    Map,
    MeanRemoval,
    Raw,
    Standardization,
    Truncation,
    Whitening,
    as_map,
    load_map,
    make_map,
    save_map,
)
from flowbert.vectors import as_vectors
from flowbert.vectors.moments import Moments
from helpers import fit, pairs_of, refused, rows, with_slow

# scikit-learn's data are a few rows of a few columns: too few for most maps, which they say.
pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

QUICK: dict[str, Any] = {
    "epochs": 1,
    "levels": 1,
    "depth": 1,
    "width": 8,
    "accelerator": "cpu",
}
AFFINE: list[AffineMap] = [
    Raw(),
    Centering(),
    MeanRemoval(),
    Standardization(),
    Truncation(),
    Truncation(n_components=2),
    Whitening(),
    Whitening(n_components=2, shrinkage=0.1),
    Whitening(shrinkage="oas"),
    Whitening(exponent=-0.35),
    ZCA(shrinkage=0.1),
    RemoveDirections(),
    RemoveDirections(n_directions=2, standardize=True),
    LearnedRemoval(n_directions=2),
]
EVERY: list[Map] = [
    *AFFINE,
    Flow(**QUICK),
    Flow(**QUICK, init="whitening"),
    ViewsMap(maps="whitening:shrinkage=0.1|raw"),
]


DEFAULT = [each for each in AFFINE if each.text == each.name and not each.supervised]


@pytest.fixture(params=EVERY, ids=str)
def estimator(request):
    return clone(request.param)


def test_names_of_columns_are_those_of_the_last_fit(estimator):
    x = rows(300, 6)
    fit(estimator, pd.DataFrame(x, columns=list("abcdef")))
    fit(estimator, as_vectors(x)).transform(x)  # without a warning


def test_every_map_is_tested():
    assert {type(each) for each in EVERY} == set(map(MAPS.find, MAPS))


@pytest.mark.filterwarnings(
    "ignore:X (has|does not have valid) feature names:UserWarning"
)
@pytest.mark.parametrize(
    "estimator", with_slow([*DEFAULT, Flow(**QUICK)], DEFAULT), ids=str
)
def test_scikit_learns_checks(estimator):
    checks = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [check for check in checks if check["status"] not in ("passed", "skipped")]
    assert len(checks) > 40
    assert failed == []
    for check in (
        check_get_feature_names_out_error,
        check_transformer_get_feature_names_out,
        check_set_output_transform,
    ):
        check(type(estimator).__name__, estimator)


@pytest.mark.parametrize(
    ("given", "wanted"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8")]
)
def test_torch_and_numpy_give_the_same_of_the_same_kind(estimator, given, wanted):
    x = rows(300, 6).astype(given)
    fitted = fit(estimator, x)
    from_numpy, from_torch = fitted.transform(x), fitted.transform(torch.from_numpy(x))
    assert isinstance(from_numpy, np.ndarray)
    assert isinstance(from_torch, torch.Tensor)
    assert_array_equal(from_numpy, from_torch.numpy())
    assert from_numpy.dtype == fitted.inverse_transform(from_numpy).dtype == wanted
    assert fitted.transform(x[:0]).shape == (0, from_numpy.shape[1])
    by_torch = fit(clone(estimator), torch.from_numpy(x))
    assert_array_equal(by_torch.transform(x), from_numpy)


def test_inverse_transform_returns_the_rows_where_nothing_is_reduced(estimator):
    x = rows(300, 6)
    fitted = fit(estimator, x)
    mapped = fitted.transform(x)
    back = fitted.inverse_transform(mapped)
    assert back.shape == x.shape
    if mapped.shape == x.shape and not isinstance(
        estimator, MeanRemoval | RemoveDirections | LearnedRemoval | ViewsMap
    ):
        # 6 x 6 products in float64, condition numbers below 1e3.
        assert_allclose(back, x, atol=1e-9)
    else:
        again = fitted.transform(back)
        assert_allclose(again, mapped, atol=1e-9)


@pytest.mark.parametrize("estimator", AFFINE, ids=str)
def test_chunks_and_moments_give_what_all_rows_give(estimator):
    x = rows(700, 6)
    whole = fit(clone(estimator), x)
    moments = Moments(6)
    for chunk in np.array_split(x, 5):
        moments.update(chunk)
    known = clone(estimator).fit_moments(moments, pairs_of(x))
    assert_array_equal(known.transform(x), whole.transform(x))


@pytest.mark.parametrize(
    "mode",
    [
        partial(torch.autocast, "cpu", torch.bfloat16),
        torch.inference_mode,
        torch.no_grad,
    ],
    ids=["autocast", "inference_mode", "no_grad"],
)
@pytest.mark.parametrize("trained", [Flow(**QUICK), LearnedRemoval(n_directions=2)])
def test_maps_are_trained_alike_in_each_mode_of_torch(trained, mode):
    x = rows(128, 8)
    expected = fit(clone(trained), x).transform(x)
    with mode():
        fitted = fit(clone(trained), x)
    assert_array_equal(fitted.transform(x), expected)


def test_one_epoch_is_all_batches():
    x = rows(256, 8)  # four batches
    whole, share = (Flow(**{**QUICK, "epochs": value}).fit(x) for value in (1, 1.0))
    assert_array_equal(whole.transform(x), share.transform(x))
    assert whole.score(x) > Flow(**{**QUICK, "epochs": 0.25}).fit(x).score(x)


def test_an_undefined_map_says_so_when_it_is_loaded(tmp_path):
    save_map(Whitening().fit(rows(5, 8)), tmp_path / "map.safetensors")
    with pytest.warns(UserWarning, match="equally similar"):
        load_map(tmp_path / "map.safetensors")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Whitening(n_components=7), "n_components: received 7"),
        (Whitening(shrinkage=1.5), "shrinkage: received 1.5"),
        (LearnedRemoval(penalty=-1), "penalty: received -1"),
        (Flow(epochs=2.5), "epochs: received 2.5"),
        (Flow(mixing="swap"), "mixing: received 'swap'"),
        (Flow(schedule="steps"), "schedule: received 'steps'"),
    ],
    ids=str,
)
def test_parameters_that_are_not_allowed(estimator, message):
    refused(message, estimator.output_dim, 6)
    refused(message, estimator.fit, rows(50, 6))


def test_tensors_that_are_no_rows_and_true_is_no_number(estimator):
    """scikit-learn's checks have arrays."""
    x = torch.from_numpy(rows(300, 6))
    fitted = fit(clone(estimator), x)
    mapped = fitted.transform(x)
    mapped[3, 1] = math.inf
    given = [(fitted.inverse_transform, mapped)]
    for wrong in (torch.ones(3), torch.empty(0, 4), torch.full((3, 6), math.nan)):
        given += [(fitted.transform, wrong), (fitted.fit, wrong)]
    for call, wrong in given:
        with pytest.raises(ValueError, match=r"X: received|NaN|infinity"):
            call(wrong)
    for name, value in estimator.get_params().items():
        texts = ("random_state", "accelerator", "mixing", "coupling", "maps")
        if name not in texts and not isinstance(value, bool):
            refused(
                f"{name}: received True", type(estimator)(**{name: True}).output_dim, 6
            )


def test_inputs_and_results_are_not_held(estimator):
    x, y = rows(300, 6), rows(40, 6, seed=1)
    kept = x.copy()
    for make in (np.array, torch.tensor):
        given = make(x)
        fitted = fit(clone(estimator), given)
        expected = fitted.transform(make(y))
        result = fitted.transform(given)
        fitted.inverse_transform(result)
        assert np.array_equal(given, kept)
        result[:] = 0
        given[:] = 7
        assert np.array_equal(fitted.transform(make(y)), expected)


def test_a_second_fit_forgets_the_first(estimator):
    x, other = rows(300, 6), rows(200, 5, seed=1) + 5
    again = fit(fit(clone(estimator), other[:, [0, 1, 2, 3, 4, 0]]), x)
    assert np.array_equal(again.transform(x), fit(estimator, x).transform(x))


@pytest.mark.parametrize("estimator", AFFINE, ids=str)
def test_a_pseudo_inverse_is_computed_once_per_fit(estimator, monkeypatch):
    counted = Mock(side_effect=torch.linalg.pinv)
    monkeypatch.setattr(torch.linalg, "pinv", counted)
    monkeypatch.setattr("flowbert.maps.base.BLOCK_ROWS", 50)
    x, y = rows(300, 6), rows(300, 6, seed=1)
    fitted = fit(clone(estimator), x)
    for _ in range(2):
        expected = fitted.inverse_transform(fitted.transform(x))
    assert counted.call_count == (type(estimator) is not Raw)
    again = fit(fit(estimator, y), x)
    assert_array_equal(again.inverse_transform(again.transform(x)), expected)


@pytest.mark.parametrize(
    ("estimator", "count", "kept"),
    [
        (Whitening(), 20, 19),
        (Whitening(n_components=30, exponent=-0.25), 20, 19),
        (Whitening(n_components=32), 200, 31),
    ],
    ids=str,
)
def test_fewer_directions_than_asked_for_are_told(estimator, count, kept):
    x = rows(count, 32)
    x[:, 3] = x[:, 5]
    with pytest.warns(FlowbertWarning, match=f"{kept} directions in place of"):
        estimator.fit(x)
    assert estimator.n_components_ == kept == estimator.transform(x).shape[1]


class SignedRoot(Map):
    """A map that is not affine and learns nothing."""

    def _apply(self, rows):
        return rows.sign() * rows.abs().sqrt()


def test_a_map_needs_no_fit_of_its_own(tmp_path):
    x = rows(20, 6)
    expected = np.sign(x) * np.sqrt(np.abs(x))
    fitted = SignedRoot().fit(x)
    assert_allclose(fitted.transform(x), expected)
    centred = make_pipeline(SignedRoot(), Centering()).fit_transform(x)
    assert_allclose(centred, expected - expected.mean(axis=0), atol=1e-12)
    save_map(fitted, tmp_path / "map")
    assert_allclose(load_map(tmp_path / "map").transform(x), expected)
    with pytest.raises(ValueError, match="expecting 6 features"):
        fitted.transform(rows(3, 5))


def test_a_flow_builds_one_network(monkeypatch):
    built: list[Any] = []
    make = Glow.__init__
    monkeypatch.setattr(
        Glow, "__init__", lambda *args, **kw: built.append(make(*args, **kw))
    )
    x = rows(70, 6)
    flow = Flow(**QUICK)
    assert flow.check(6) == 6
    assert len(built) == 0
    flow.fit(x).inverse_transform(flow.transform(x))
    assert len(built) == 1


ODD_ARRAYS: dict[str, Any] = {
    "reversed": lambda x: x[::-1].copy()[::-1],
    "reversed columns": lambda x: x[:, ::-1].copy()[:, ::-1],
    "Fortran": np.asfortranarray,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "every other": lambda x: np.repeat(x, 2, axis=0)[::2],
    "half precision": lambda x: x.astype(np.float16),
}


@pytest.mark.parametrize("layout", ODD_ARRAYS)
@pytest.mark.parametrize("text", ["whitening-4+standardization", "views", "PCA"])
def test_layout_and_byte_order_of_an_array_change_nothing(text, layout):
    x = rows(60, 6).astype(np.float16).astype(np.float32)
    odd = ODD_ARRAYS[layout](x)
    assert np.array_equal(odd, x)
    new = partial(as_map, PCA(4)) if text == "PCA" else partial(make_map, text)
    expected = new().fit(x).transform(x)
    found = new().fit(odd).transform(odd)
    assert_array_equal(found, expected)
    assert found.dtype == np.float32
    fitted = new().fit(x)
    assert_array_equal(fitted.transform(odd[:1]), fitted.transform(x[:1]))


@pytest.mark.parametrize("text", ["views", "whitening+centering", "PCA"])
def test_a_map_knows_how_many_directions_it_kept(text):
    x = rows(60, 8)
    x[:, [3, 7]] = 1  # no variance
    fitted: Any = as_map(PCA(6)) if text == "PCA" else make_map(text)
    framed = fitted.set_output(transform="pandas").fit(x).transform(x)
    assert framed.shape == (60, 6)
    back = fitted.set_output(transform="default").inverse_transform(framed.to_numpy())
    assert back.shape == x.shape
