"""The flow against the official TensorFlow operations: start values, latents, objective and gradients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from flowbert.flows import Glow, LULinear
from flowbert.losses.nll import bits_per_dim

pytestmark = pytest.mark.real

CASES: dict[str, dict[str, Any]] = {
    "glow_l2_d3_w32_plu_additive": {"levels": 2, "mixing": "lu", "mixing_init": "rotation"},
    "glow_l3_d3_w32_reverse_additive": {"levels": 3, "mixing": "reverse"},
}
DIRECT = {
    "actnorm/actnorm_center/b": "actnorm.bias",
    "actnorm/actnorm_scale/logs": "actnorm.log_scale",
    "invertible/log_S": "mixing.log_diagonal",
    "invertible/sign_S": "mixing.sign",
    "additive/nn/conv_block/1_1/W": "coupling.net.weight_1",
    "additive/nn/conv_block/1_1/actnorm/actnorm_center/b": "coupling.net.actnorm_1.bias",
    "additive/nn/conv_block/1_1/actnorm/actnorm_scale/logs": "coupling.net.actnorm_1.log_scale",
    "additive/nn/conv_block/1_2/W": "coupling.net.weight_2",
    "additive/nn/conv_block/1_2/actnorm/actnorm_center/b": "coupling.net.actnorm_2.bias",
    "additive/nn/conv_block/1_2/actnorm/actnorm_scale/logs": "coupling.net.actnorm_2.log_scale",
    "additive/nn/zeros/W": "coupling.net.weight_out",
    "additive/nn/zeros/b": "coupling.net.bias_out",
    "additive/nn/zeros/logs": "coupling.net.log_scale_out",
}


class Reference(NamedTuple):
    """A reference file and a flow of its shape."""

    arrays: dict[str, np.ndarray]
    flow: Glow

    def tensor(self, key: str) -> Tensor:
        return torch.from_numpy(self.arrays[key])

    def load(self, prefix: str) -> None:
        """Put the variables below ``prefix`` into the flow; every tensor of the flow must be covered."""
        state = self.expected(prefix)
        initialized = {name: torch.tensor(True) for name in self.flow.state_dict() if name.endswith("initialized")}
        self.flow.load_state_dict({**state, **initialized})

    def expected(self, prefix: str) -> dict[str, Tensor]:
        """Variables below ``prefix`` under the flow's names and shapes."""
        variables = {
            k.removeprefix(f"{prefix}/flow_model/flow/"): v for k, v in self.arrays.items() if k.startswith(prefix)
        }
        shapes: Mapping[str, Tensor] = self.flow.state_dict()
        result: dict[str, Tensor] = {}
        for level, module in enumerate(self.flow.levels):
            for step, (step_name, parts) in enumerate(module.named_children()):
                theirs, ours = f"revnet_{level}/revnet_step_{step}", f"levels.{level}.{step_name}"
                for their_name, our_name in DIRECT.items():
                    if (value := variables.get(f"{theirs}/{their_name}:0")) is not None:
                        name = f"{ours}.{our_name}"
                        result[name] = torch.from_numpy(value).reshape(shapes[name].shape)
                if isinstance(parts.get_submodule("mixing"), LULinear):
                    lower, upper = (torch.from_numpy(variables[f"{theirs}/invertible/{n}:0"]) for n in ("L", "U"))
                    result[f"{ours}.mixing.triangles"] = lower.tril(-1) + upper.triu(1)
                    if f"{theirs}/invertible/P:0" in variables:
                        P = torch.from_numpy(variables[f"{theirs}/invertible/P:0"])
                        result[f"{ours}.mixing.permutation"] = P.argmax(0)
        return result


@pytest.fixture(params=CASES)
def reference(request: pytest.FixtureRequest, real: Path) -> Reference:
    with np.load(real / "reference" / f"{request.param}.npz") as file:
        arrays = dict(file)
    return Reference(arrays, Glow(arrays["x"].shape[1], **CASES[request.param]))


def error(actual: Tensor, expected: Tensor, floor: float = 1e-8) -> float:
    """Largest difference relative to the largest expected value, or to ``floor`` where that is larger."""
    return float(((actual - expected).abs().max() / expected.abs().max().clamp_min(floor)).detach())


def test_start_values(reference: Reference) -> None:
    reference.load("raw")
    reference.flow.initialize(reference.tensor("x_init"))
    expected = reference.expected("ddi")
    state = reference.flow.state_dict()
    assert set(expected) == {name for name in state if not name.endswith("initialized")}
    # Behind a started actnorm the means are zero up to rounding: 1e-5 of a zero would ask for the same rounding.
    errors = {name: error(state[name], value, floor=0.1) for name, value in expected.items()}
    assert {name: e for name, e in errors.items() if e > 1e-5} == {}


def test_latent_and_objective_after_the_start(reference: Reference) -> None:
    reference.load("raw")
    reference.flow.initialize(reference.tensor("x_init"))
    x = reference.tensor("x_init")
    assert error(reference.flow(x)[0], reference.tensor("z_init")) < 1e-5
    assert error(bits_per_dim(reference.flow.nll(x), 64), reference.tensor("objective_init")) < 1e-5


def test_latent_and_objective_with_moved_parameters(reference: Reference) -> None:
    reference.load("params")
    x = reference.tensor("x")
    assert error(reference.flow(x)[0], reference.tensor("z")) < 1e-5
    assert error(bits_per_dim(reference.flow.nll(x), 64), reference.tensor("objective")) < 1e-5
    assert error(reference.flow.inverse(reference.tensor("z"))[0], x) < 1e-5


def test_gradients(reference: Reference) -> None:
    reference.load("params")
    bits_per_dim(reference.flow.nll(reference.tensor("x")), 64).mean().backward()  # type: ignore[no-untyped-call]
    expected = reference.expected("grad")
    parameters = dict(reference.flow.named_parameters())
    assert set(expected) == set(parameters)
    gradients = {name: parameter.grad for name, parameter in parameters.items()}
    assert {n: e for n, g in gradients.items() if g is None or (e := error(g, expected[n])) > 1e-4} == {}
