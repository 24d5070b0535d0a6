"""Methods of ``evaluate`` by name: calibrations, flows fitted here or before, and compositions of them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert.calibration import Calibration, methods
from flowbert.calibration.few_rows import few_rows
from flowbert.encoders import check_same_encoder
from flowbert.errors import UserError
from flowbert.evaluation import Method, Source
from flowbert.flows.serialization import FILE_NAME
from flowbert.io.digest import digest_file
from flowbert.methods.chain import Chain, Step
from flowbert.methods.embedder import load_map, saved_encoder
from flowbert.methods.registry import checked_options, make_calibration, parse_spec, split_chain
from flowbert.seeding import Stream

FLOW = "flow"
FIT_HERE = "fit"
_ACCELERATORS = {"cpu": "cpu", "cuda": "gpu", "mps": "mps"}
_TRAINING = {"epochs": 3, "batch_size": 64, "start_size": 1024}  # and their defaults, as fit_flow has them
_TRIAL_DIM = 2**8  # of a flow that is built only to check its options: more levels fit than anybody wants


class FlowStep:
    """A flow fitted on rows in memory, as a step of a :class:`flowbert.calibration.Chain`.

    Args:
        options: Options of :class:`flowbert.modules.FlowModule`, and ``epochs``, ``batch_size``, ``start_size``. Less
            than one epoch is one pass over that share of the rows, drawn by the seed.
        seed: Seed of the start, the order and the noise.
        accelerator: Lightning's name of the device.

    Attributes:
        flaw: Why the fitted flow's figures mean nothing; None if they mean something.

    Raises:
        UserError: If a value is not allowed; nothing has been encoded by then.
    """

    def __init__(self, options: Mapping[str, Any], seed: int, accelerator: str = "cpu") -> None:
        _check_flow_options(options)
        self.options = dict(options)
        self.seed = seed
        self.accelerator = accelerator
        self.flaw: str | None = None
        self._embed: Callable[[Tensor], Tensor] | None = None

    def fit(self, x: Tensor) -> "FlowStep":
        """Fit on rows ``(N, D)``. Returns self."""
        from flowbert.methods.flow_fit import fit_flow

        epochs = self.options.get("epochs", _TRAINING["epochs"])
        if epochs < 1:
            order = torch.randperm(len(x), generator=Stream(self.seed, "subset").generator())
            x = x[order[: max(2, round(epochs * len(x)))]]
        if len(x) < 2:  # nothing to start from
            self.flaw = few_rows(len(x), x.shape[1])
            return self
        options = self.options | {"epochs": max(1, int(epochs))}
        fitted = fit_flow(x, seed=self.seed, accelerator=self.accelerator, **options)
        self._embed, self.flaw = fitted.embed, fitted.flaw
        return self

    def output_dim(self, dim: int) -> int:
        """The same size, if the levels of the flow divide it."""
        _check_flow_options(self.options, dim)
        return dim

    def transform(self, x: Tensor) -> Tensor:
        """Latents of rows ``(N, D)``."""
        if self._embed is None:
            raise RuntimeError("FlowStep is not fitted: call fit")
        return self._embed(x)


def _check_flow_options(options: Mapping[str, Any], dim: int = _TRIAL_DIM) -> None:
    from flowbert.modules import FlowModule

    training = _TRAINING | {name: value for name, value in options.items() if name in _TRAINING}
    epochs = training["epochs"]
    if not epochs > 0 or (epochs > 1 and epochs != int(epochs)):
        raise UserError(f"epochs: received {epochs}; allowed: a whole number, or a share of one epoch above 0")
    for name, least in (("batch_size", 1), ("start_size", 2)):
        if training[name] < least or training[name] != int(training[name]):
            raise UserError(f"{name}: received {training[name]}; allowed: a whole number of at least {least}")
    FlowModule(dim, **{name: value for name, value in options.items() if name not in _TRAINING})


def parse_methods(names: Sequence[str], flow: str | None, device: torch.device) -> list[Method]:
    """Methods of the option ``--methods``.

    ``flow`` alone is the flow of the run folder ``flow``; with options, or inside a composition, it is fitted here, as
    it is everywhere if ``flow`` is ``"fit"``.

    Raises:
        UserError: If a name or an option is unknown, or ``flow`` alone has no run folder.
    """
    return [_parse(name, flow, device) for name in names]


def _parse(name: str, flow: str | None, device: torch.device) -> Method:
    if name == "raw":
        return Method(name)
    if name == FLOW and flow != FIT_HERE:
        if flow is None:
            raise UserError(
                "--flow: method flow needs the run folder of a finished `fit`, or 'fit' to fit one here; received none"
            )
        return _trained(flow)
    specs = split_chain(name)
    makers = [partial(_step, spec, device) for spec in specs]
    trial = Chain([make(0) for make in makers])  # a typo must show before anything is encoded
    return Method(
        name,
        build=lambda seed: Chain([make(seed) for make in makers]),
        seeded=any(isinstance(step, FlowStep) for step in trial.steps),
        supervised=trial.supervised,
        output_dim=trial.output_dim,
    )


def _step(spec: str, device: torch.device, seed: int) -> Calibration | Step:
    try:
        return _made(spec, device, seed)
    except UserError as error:
        raise UserError(str(error) if spec in str(error) else f"method {spec!r}: {error}") from error
    except TypeError as error:  # a word where a number belongs
        raise UserError(f"method {spec!r}: a value is of the wrong kind ({error})") from error


def _made(spec: str, device: torch.device, seed: int) -> Calibration | Step:
    found = parse_spec(spec, [*methods(), FLOW])
    if found.name != FLOW:
        return make_calibration(spec)
    if found.number is not None:
        raise UserError(f"method {spec!r}: flow takes no number; allowed: flow, flow:epochs=1")
    return FlowStep(checked_options(found, flow_options()), seed, _ACCELERATORS[device.type])


def flow_options() -> list[str]:
    """Names of the options that a flow fitted here takes."""
    from flowbert.modules import FlowModule

    model = [name for name in inspect.signature(FlowModule).parameters if name not in ("dim", "seed")]
    return [*_TRAINING, *model]


def _trained(run_dir: str) -> Method:
    identity = saved_encoder(run_dir)

    def check(source: Source) -> None:
        check_same_encoder(identity, source.key, f"flow in {run_dir}")

    fitted = load_map(run_dir, FLOW)
    identity_of_map = digest_file(Path(run_dir) / "model" / FILE_NAME)
    fitted_on = f"that of {run_dir}"
    return Method(
        FLOW, ready=fitted.transform, flaw=fitted.flaw, fitted_on=fitted_on, identity=identity_of_map, check=check
    )
