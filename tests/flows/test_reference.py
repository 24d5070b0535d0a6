"""The flow against the official TensorFlow operations: start, latents, objective, gradients."""

from typing import Any

import numpy as np
import pytest
import torch

from flowbert.flows import Glow, bits_per_dim

pytestmark = pytest.mark.real

CASES: dict[str, dict[str, Any]] = {
    "glow_l2_d3_w32_plu_additive": {
        "levels": 2,
        "mixing": "lu",
        "mixing_init": "rotation",
    },
    "glow_l3_d3_w32_reverse_additive": {"levels": 3, "mixing": "reverse"},
}
NAMES = {
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
"""Variables of a step in the official code, and ours."""


class Reference:
    """The tensors of a file, and a flow of its shape."""

    def __init__(self, path):
        with np.load(path) as file:
            self.tensors = {name: torch.from_numpy(file[name]) for name in file.files}
        self.flow = Glow(self.tensors["x"].shape[1], **CASES[path.stem])

    def state(self, prefix):
        """Variables below ``prefix`` under the flow's names and in its shapes."""
        shapes = self.flow.state_dict()
        state = {}
        for level in range(self.flow.config["levels"]):
            for step in range(self.flow.config["depth"]):
                theirs = f"{prefix}/flow_model/flow/revnet_{level}/revnet_step_{step}"
                ours = f"levels.{level}.step_{step}"
                for their_name, our_name in NAMES.items():
                    value = self.tensors.get(f"{theirs}/{their_name}:0")
                    if value is not None:
                        name = f"{ours}.{our_name}"
                        state[name] = value.reshape(shapes[name].shape)
                if f"{theirs}/invertible/L:0" in self.tensors:
                    lower = self.tensors[f"{theirs}/invertible/L:0"]
                    upper = self.tensors[f"{theirs}/invertible/U:0"]
                    state[f"{ours}.mixing.triangles"] = lower.tril(-1) + upper.triu(1)
                if f"{theirs}/invertible/P:0" in self.tensors:
                    permutation = self.tensors[f"{theirs}/invertible/P:0"].argmax(0)
                    state[f"{ours}.mixing.permutation"] = permutation
        return state

    def load(self, prefix):
        state = self.state(prefix) | {"initialized": torch.ones(())}
        self.flow.load_state_dict(state)


@pytest.fixture(params=CASES)
def reference(request, real):
    return Reference(real / "reference" / f"{request.param}.npz")


def error(actual, expected, floor=1e-8):
    """Largest difference relative to the largest expected value."""
    largest = expected.abs().max().clamp_min(floor)
    return float(((actual - expected).abs().max() / largest).detach())


# Both sides compute in float32: a hundred roundings of 6e-8 along a path of the flow.
TOLERANCE = 1e-5


def test_start(reference):
    reference.load("raw")
    x = reference.tensors["x_init"]
    reference.flow.initialize(x)
    expected, state = reference.state("ddi"), reference.flow.state_dict()
    assert set(expected) == state.keys() - {"initialized"}
    # Behind a started actnorm the means are zero up to rounding, so the error is not relative.
    errors = {
        name: error(state[name], value, floor=0.1) for name, value in expected.items()
    }
    assert {name: value for name, value in errors.items() if value > TOLERANCE} == {}
    assert error(reference.flow(x)[0], reference.tensors["z_init"]) < TOLERANCE
    bits = bits_per_dim(-reference.flow.log_prob(x), 64)
    assert error(bits, reference.tensors["objective_init"]) < TOLERANCE


def test_latents_and_objective_with_moved_parameters(reference):
    reference.load("params")
    x, z = reference.tensors["x"], reference.tensors["z"]
    assert error(reference.flow(x)[0], z) < TOLERANCE
    assert error(reference.flow.inverse(z)[0], x) < TOLERANCE
    bits = bits_per_dim(-reference.flow.log_prob(x), 64)
    assert error(bits, reference.tensors["objective"]) < TOLERANCE


def test_gradients(reference):
    reference.load("params")
    loss = bits_per_dim(-reference.flow.log_prob(reference.tensors["x"]), 64).mean()
    parameters = dict(reference.flow.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    expected = reference.state("grad")
    assert set(expected) == set(parameters)
    for name, gradient in zip(parameters, gradients, strict=True):
        assert error(gradient, expected[name]) < 10 * TOLERANCE, name
