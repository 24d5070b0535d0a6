"""Every estimator under scikit-learn's own checks, and beside the map of flowbert that it wraps."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_get_feature_names_out_error,
    check_global_output_transform_pandas,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
)

import flowbert.estimators
from flowbert import fit_flow
from flowbert.calibration import Calibration, methods
from flowbert.calibration.learned_removal import LearnedRemoval
from flowbert.errors import UserError
from flowbert.estimators import (
    ZCA,
    CalibrationTransformer,
    FlowTransformer,
    Identity,
    RemoveDirections,
    Standardization,
    Truncation,
    Whitening,
)

# Their data are a few rows of a few columns: too few for most maps, which is said.
pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

Floats = npt.NDArray[np.float64]
QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 64, "depth": 2, "width": 8, "accelerator": "cpu"}
CALIBRATIONS: list[CalibrationTransformer] = [
    Identity(),
    Standardization(),
    Truncation(),
    Whitening(),
    Whitening(shrinkage="ledoit-wolf"),
    ZCA(shrinkage=0.1),
    RemoveDirections(),
]
EVERY: list[Any] = [*CALIBRATIONS, FlowTransformer(**QUICK)]
SKIPPED = {"check_array_api_input"}  # asks for the environment variable SCIPY_ARRAY_API


def rows(count: int = 200, dim: int = 6, seed: int = 0) -> Floats:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, dim)) @ random.normal(size=(dim, dim)) + 3


@pytest.fixture(params=EVERY, ids=str)
def estimator(request: pytest.FixtureRequest) -> Any:
    return clone(request.param)


def test_every_unsupervised_calibration_has_an_estimator() -> None:
    unsupervised = {kind for kind in methods().values() if kind is not LearnedRemoval}
    kinds = {type(each).kind for each in CALIBRATIONS}
    assert kinds == unsupervised
    assert {type(each).__name__ for each in CALIBRATIONS} == {kind.__name__ for kind in unsupervised}
    assert {type(each).__name__ for each in EVERY} | {"CalibrationTransformer"} == set(flowbert.estimators.__all__)


def test_scikit_learns_checks(estimator: Any) -> None:
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 40
    assert [(one["check_name"], one["exception"]) for one in found if one["status"] not in ("passed", "skipped")] == []
    assert {one["check_name"] for one in found if one["status"] == "skipped"} == SKIPPED


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
def test_scikit_learns_checks_of_names_and_frames(estimator: Any) -> None:
    for check in (
        check_get_feature_names_out_error,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_global_output_transform_pandas,
    ):
        check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("estimator", CALIBRATIONS, ids=str)
def test_a_calibration_maps_as_flowberts_does(estimator: CalibrationTransformer) -> None:
    x = rows()
    wrapped, plain = clone(estimator), estimator.kind(**estimator.get_params()).fit(x)
    for dtype in (np.float64, np.float32):
        there = wrapped.fit(x.astype(dtype)).transform(x.astype(dtype))
        assert there.dtype == dtype
        np.testing.assert_allclose(there, plain.transform(x).numpy(), rtol=1e-5, atol=1e-5)
    parts = clone(estimator).partial_fit(x[:70]).partial_fit(x[70:])
    np.testing.assert_allclose(parts.transform(x), wrapped.fit(x).transform(x), atol=1e-9)


def test_the_flow_is_that_of_fit_flow_and_of_its_seed() -> None:
    x = rows()
    estimator = FlowTransformer(random_state=3, **QUICK).fit(x)
    flow = fit_flow(x, seed=3, **QUICK).flow
    assert flow is not None
    fitted = estimator.flow_.state_dict()
    assert all(np.array_equal(value.numpy(), fitted[name].numpy()) for name, value in flow.state_dict().items())
    latents = estimator.transform(x)
    assert np.array_equal(FlowTransformer(random_state=3, **QUICK).fit_transform(x), latents)
    assert not np.array_equal(FlowTransformer(random_state=4, **QUICK).fit_transform(x), latents)
    drawn = [FlowTransformer(random_state=np.random.RandomState(1), **QUICK).fit(x).seed_ for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 12])
def test_the_flow_takes_any_size_and_its_density_is_one(dim: int) -> None:
    """Integrated over the data, the density is 1: its mean ratio to the density that the rows were drawn from is."""
    estimator = FlowTransformer(levels=4, coupling="affine", **QUICK).fit(rows(dim=dim))
    assert len(estimator.flow_.levels) == min(4, max(1, int(np.ceil(np.log2(dim)))))
    z = np.random.default_rng(1).normal(size=(20000, dim))
    x = estimator.inverse_transform(z)
    np.testing.assert_allclose(estimator.transform(x), z, atol=1e-6)
    covariance = np.atleast_2d(np.cov(x.T)) * 0.9
    drawn = np.random.default_rng(2).multivariate_normal(x.mean(0), covariance, 20000)
    centred = drawn - x.mean(0)
    proposal = -0.5 * (
        np.einsum("ni,ij,nj->n", centred, np.linalg.inv(covariance), centred)
        + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    assert np.exp(estimator.score_samples(drawn) - proposal).mean() == pytest.approx(1, abs=0.1)
    assert estimator.score(drawn) == pytest.approx(estimator.score_samples(drawn).mean())


def test_back_to_the_rows(estimator: Any) -> None:
    x = rows()
    y = estimator.fit(x).transform(x)
    back = estimator.inverse_transform(y)
    if isinstance(estimator, RemoveDirections):
        assert np.linalg.matrix_rank(back - x) == 1
    else:
        np.testing.assert_allclose(back, x, atol=1e-8)


def test_saved_and_loaded_without_pickle(estimator: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(rows(), columns=list("abcdef"))
    with pytest.raises(ValueError, match="not fitted"):
        estimator.save(tmp_path / "map.safetensors")
    estimator.fit(frame).save(tmp_path / "map.safetensors")
    loaded = type(estimator).load(tmp_path / "map.safetensors")
    assert loaded.get_params() == estimator.get_params()
    assert np.array_equal(loaded.transform(frame), estimator.transform(frame))
    assert list(loaded.feature_names_in_) == list("abcdef")
    assert np.array_equal(loaded.get_feature_names_out(), estimator.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame.rename(columns={"a": "z"}))
    other = Whitening if not isinstance(estimator, Whitening) else ZCA
    with pytest.raises(UserError, match=r"map\.safetensors: "):
        other.load(tmp_path / "map.safetensors")


def test_maps_of_flowbert_are_loaded(tmp_path: Path) -> None:
    x = rows()
    fitted = Calibration.load(Whitening(n_components=2).fit(x).save(tmp_path / "a.safetensors"))
    loaded = Whitening.load(fitted.save(tmp_path / "b.safetensors"))
    assert np.array_equal(loaded.transform(x), fitted.transform(x, dtype=torch.float64).numpy())
    module = fit_flow(x, **QUICK)
    module.save_fitted(tmp_path)
    estimator = FlowTransformer.load(tmp_path / "flow.safetensors")
    np.testing.assert_allclose(estimator.transform(x), module.embed(torch.from_numpy(x)), atol=1e-4)


def test_in_a_pipeline_with_frames() -> None:
    frame = pd.DataFrame(rows(), columns=list("abcdef"))
    pipeline = make_pipeline(Standardization(), Whitening(n_components=3), FunctionTransformer())
    out = pipeline.set_output(transform="pandas").fit(frame).transform(frame)
    assert list(out.columns) == ["whitening0", "whitening1", "whitening2"]
    np.testing.assert_allclose(np.cov(out.to_numpy().T), np.eye(3), atol=1e-8)
    assert list(ZCA().set_output(transform="pandas").fit_transform(frame).columns) == list("abcdef")


def test_wrong_arguments_show_in_fit() -> None:
    for estimator, message in (
        (Whitening(n_components=7), "n_components: received 7; allowed: 1 to 6"),
        (Whitening(shrinkage=2), r"shrinkage: received 2; allowed: a number in \[0, 1\]"),
        (RemoveDirections(n_directions=6), "n_directions: received 6; allowed: 1 to 5"),
        (FlowTransformer(mixing="lou"), "did you mean 'lu'"),
        (FlowTransformer(epochs=0), "epochs: received 0"),
    ):
        with pytest.raises(UserError, match=message):
            estimator.fit(rows())


def test_without_scikit_learn_one_line_says_what_to_install() -> None:
    code = (
        "import importlib.util as u; found = u.find_spec;"
        "u.find_spec = lambda name, *rest: None if name == 'sklearn' else found(name, *rest);"
        "import flowbert.estimators"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "ImportError: flowbert.estimators needs scikit-learn" in result.stderr.splitlines()[-1]
    assert "pip install 'flowbert[sklearn]'" in result.stderr
