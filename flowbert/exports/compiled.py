r"""A fitted map as a few dense layers.

Whitening, actnorms, mixings, splits and all maps but the flow are affine, and an additive coupling
adds :math:`W h` to half of the dimensions, h being the last hidden layer of its network. So a map
with K couplings is affine in the embedding x and all these hidden layers together:

.. math::
    y = A\,[h_1, \dots, h_K, x] + c, \qquad
    h_k = \mathrm{relu}(B_k\, \mathrm{relu}(A_k\,[h_1, \dots, h_{k-1}, x] + a_k) + b_k)
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flowbert.flows import AdditiveCoupling, Glow
from flowbert.maps import Flow, Map


class Affine(NamedTuple):
    """An affine map :math:`W x + b`: weight ``(k, D)``, bias ``(k,)``, float64."""

    weight: Tensor
    bias: Tensor

    def after(self, first: "Affine") -> "Affine":
        """This map after another one, as one."""
        weight = self.weight @ first.weight
        return Affine(weight, self.weight @ first.bias + self.bias)


class CompiledMap:
    r"""The layers of a fitted map, exact but for the rounding of float64.

    Args:
        fitted: Affine maps and flows with additive couplings.
        dim: Size D of the embeddings.

    Attributes:
        networks: The hidden layers of each coupling: :math:`(A_k, a_k)` and :math:`(B_k, b_k)`.
        output: The last layer :math:`(A, c)`.
    """

    def __init__(self, fitted: Map, dim: int) -> None:
        self.dim = dim
        self.networks: list[tuple[Affine, Affine]] = []
        identity = torch.eye(dim, dtype=torch.float64)
        # Columns: x, then the hidden layers in the order of the couplings.
        self._state = Affine(identity, torch.zeros_like(identity[0]))
        for step in fitted.parts:
            if isinstance(step, Flow):
                self._add_flow(step.flow_.cpu())
            else:
                weight, bias = step.affine()
                self._state = Affine(weight.T, bias).after(self._state)
        self.output = self._hidden_first(self._state)

    @torch.no_grad()
    def _add_flow(self, flow: Glow) -> None:
        leaving: list[Affine] = []
        for layer in flow.front.children():
            self._add_layer(layer)
        for number, level in enumerate(flow.levels):
            if number > 0:
                self._state, half = _halves(self._state)
                leaving.append(half)
            for step in level.children():
                for layer in step.children():
                    self._add_layer(layer)
        self._state = _stack(*leaving, self._state)

    def _add_layer(self, layer: nn.Module) -> None:
        if not isinstance(layer, AdditiveCoupling):
            size = len(self._state.bias)
            self._state = _probe(lambda x: layer(x)[0], size).after(self._state)
            return
        net = layer.net
        fixed, changed = _halves(self._state)
        first = _probe(lambda x: net.actnorm_1(x @ net.weight_1)[0], len(fixed.bias))
        second = _probe(lambda h: net.actnorm_2(h @ net.weight_2)[0], len(first.bias))
        shift = _probe(net.output, len(second.bias))
        self.networks.append((self._hidden_first(first.after(fixed)), second))
        weight = torch.cat([changed.weight, shift.weight], dim=1)
        self._state = _stack(fixed, Affine(weight, changed.bias + shift.bias))

    def _hidden_first(self, layer: Affine) -> Affine:
        return Affine(layer.weight.roll(-self.dim, dims=1), layer.bias)


def _halves(layer: Affine) -> tuple[Affine, Affine]:
    weight_1, weight_2 = layer.weight.chunk(2)
    bias_1, bias_2 = layer.bias.chunk(2)
    return Affine(weight_1, bias_1), Affine(weight_2, bias_2)


def _stack(*layers: Affine) -> Affine:
    """Layers above each other; the later a layer, the more hidden columns it has."""
    columns = layers[-1].weight.shape[1]
    weights = []
    for layer in layers:
        missing = columns - layer.weight.shape[1]
        weights.append(nn.functional.pad(layer.weight, (0, missing)))
    return Affine(torch.cat(weights), torch.cat([layer.bias for layer in layers]))


def _probe(function: Callable[[Tensor], Tensor], size: int) -> Affine:
    """Weight and bias of an affine function, from its values at 0 and at the unit vectors."""
    bias = function(torch.zeros(1, size, dtype=torch.float64))
    weight = function(torch.eye(size, dtype=torch.float64)) - bias
    return Affine(weight.T, bias[0])
