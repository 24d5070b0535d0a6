"""The one registry of methods, and compositions of them: ``whitening-128:shrinkage=0.1+flow:epochs=1``."""

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from flowbert.calibration.base import Calibration, methods
from flowbert.encoders import check_same_encoder
from flowbert.encoders.identity import is_vectors
from flowbert.errors import UserError
from flowbert.io.digest import digest_file
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import Method
from flowbert.methods.chain import Chain, Step
from flowbert.methods.embedder import FLOW, load_map, saved_encoder, transform_of
from flowbert.spec import Spec, parse_spec

FIT_HERE = "fit"
GIVEN = "given"  # a calibration that was fitted before, here or elsewhere
_ACCELERATORS = {"cpu": "cpu", "cuda": "gpu", "mps": "mps"}


def split_chain(spec: str) -> list[str]:
    """Steps of a composition ``first+second``; a plus sign inside a number (``1e+3``) parts nothing.

    Example:
        >>> split_chain("whitening-128:shrinkage=1e+0+flow:epochs=1")
        ['whitening-128:shrinkage=1e+0', 'flow:epochs=1']
    """
    return [step.strip() for step in re.split(r"\+(?=\s*[A-Za-z])", spec)]


def make_calibration(spec: str) -> Calibration:
    """A new calibration from ``name[-NUMBER][:option=value]...``.

    The number sets the method's main size (``n_components`` of whitening, ``n_directions`` of nulling); every further
    option is a constructor argument. Colons, not commas, part the options, so a list of methods can use commas.

    Args:
        spec: For example ``raw``, ``whitening``, ``whitening-128``, ``whitening:shrinkage=0.1:exponent=-0.35``,
            ``whitening-256:shrinkage=ledoit-wolf``, ``zca``, ``standardization``, ``nulling-3:standardize=true``.

    Raises:
        UserError: If the method or an option is unknown (the nearest names are given), or a value is not allowed.

    Example:
        >>> import flowbert
        >>> flowbert.make_calibration("whitening-128:shrinkage=0.1")
        Whitening(n_components=128, shrinkage=0.1, exponent=-0.5, rank_tolerance=1e-10)
    """
    return _calibration(parse_spec(spec, methods()))


def parse_methods(
    names: Sequence[str], flow: str | None, device: torch.device, given: str | None = None
) -> list[Method]:
    """Methods by their names: ``raw``, ``given``, a calibration, ``flow``, or a composition of the last two.

    Args:
        names: The names.
        flow: The run folder whose flow ``flow`` alone is. With options, or inside a composition, a flow is fitted
            here, as it is everywhere if this is ``"fit"``.
        device: Where flows are fitted.
        given: The run folder whose calibration ``given`` is.

    Raises:
        UserError: If a name or an option is unknown, or ``flow`` alone or ``given`` has no run folder.
    """
    return [_method(name, flow, given, _ACCELERATORS[device.type]) for name in names]


def _method(name: str, flow: str | None, given: str | None, accelerator: str) -> Method:
    if name == "raw":
        return Method(name)
    if name == FLOW and flow != FIT_HERE:
        if flow is None:
            needed = "a run folder of `fit`, or 'fit' to fit it here"
            raise UserError(f"flow: received none; allowed with method flow: {needed}")
        return _fitted_before(name, flow, RunFolder.find(flow), FLOW)
    if name == GIVEN:
        if given is None:
            raise UserError("given: received none; allowed with method given: a run folder of `fit` or `import`")
        run = RunFolder.find(given)
        return _fitted_before(name, given, run, _calibration_in(run, given))
    makers = [partial(_step, spec, accelerator) for spec in split_chain(name)]
    trial = Chain([make(0) for make in makers])  # a typo must show before anything is encoded
    return Method(
        name,
        build=lambda seed: Chain([make(seed) for make in makers]),
        seeded=not all(isinstance(step, Calibration) for step in trial.steps),
        supervised=trial.supervised,
        output_dim=trial.output_dim,
    )


def _step(text: str, accelerator: str, seed: int) -> Calibration | Step:
    try:
        if text in ("raw", GIVEN):
            raise UserError(f"method: received {text!r} in a composition; allowed: {text} alone")
        spec = parse_spec(text, [*methods(), FLOW])
        if spec.name != FLOW:
            return _calibration(spec)
        # Lightning takes a second to import: only what fits a flow pays for it.
        from flowbert.methods.flow import Flow, flow_options

        return Flow(spec.arguments(flow_options()), seed, accelerator)
    except UserError as error:
        raise UserError(str(error) if text in str(error) else f"method {text!r}: {error}") from error
    except TypeError as error:  # a word where a number belongs
        raise UserError(f"method {text!r}: a value is of the wrong kind ({error})") from error


def _calibration(spec: Spec) -> Calibration:
    method = methods()[spec.name]
    return method(**spec.arguments(inspect.signature(method).parameters, method.size_option))


def _check_fits(saved: Mapping[str, Any], dim: int | None, what: str, key: Mapping[str, Any]) -> None:
    """Refuse an encoder that a map was not fitted on; of vectors from elsewhere the size alone tells."""
    if is_vectors(key) and key["dim"] != dim:
        raise UserError(f"the {what} maps vectors of size {dim}; received vectors of size {key['dim']}; allowed: {dim}")
    if not is_vectors(key):
        check_same_encoder(saved, key, what)


def _calibration_in(run: RunFolder, shown: str) -> str:
    """Name of the one map of a run folder that is no flow."""
    saved = [name for name in run.fitted_maps() if name != FLOW]
    if len(saved) != 1:
        found = ", ".join(saved) or "no calibration"
        raise UserError(f"given: {shown} holds {found}; allowed: a run folder with one whitening or other calibration")
    return saved[0]


def _fitted_before(method: str, shown: str, run: RunFolder, name: str) -> Method:
    """A map of a run folder under the name of a method; ``shown`` is the folder as it was asked for."""
    identity, (fitted, flaw) = saved_encoder(run.path), load_map(run.path, name)
    return Method(
        method,
        ready=transform_of(fitted),
        flaw=flaw,
        fitted_on=f"that of {shown}",
        identity=digest_file(run.fitted_map(name)),
        check=partial(_check_fits, identity, fitted.dim, f"{name} in {shown}"),
    )
