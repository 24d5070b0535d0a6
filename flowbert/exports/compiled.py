r"""A fitted map as a few dense layers: what stays linear is folded, a coupling's network is kept.

Actnorm, mixing, splits and every calibration are affine, and an additive coupling adds :math:`W h` to half of the
dimensions, where :math:`h` is the last hidden layer of its network. So the whole map is affine in the embedding
:math:`x` and all these hidden layers together:

.. math:: y = A\,[h_1, \dots, h_K, x] + c, \qquad h_k = \mathrm{relu}(B_k\, \mathrm{relu}(A_k [h_1, \dots, h_{k-1}, x]
    + c_k) + b_k)
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flowbert.calibration import Calibration
from flowbert.encoders.after_pooling import Dense
from flowbert.errors import UserError
from flowbert.flows import AdditiveCoupling, Bijection, Glow
from flowbert.methods.chain import Chain
from flowbert.methods.embedder import Fitted


class Affine(NamedTuple):
    """:math:`y = W x + b`: weight ``(k, D)``, bias ``(k,)``, float64."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows ``(N, D)`` to ``(N, k)``."""
        return x @ self.weight.T + self.bias

    def after(self, first: "Affine") -> "Affine":
        """This map after another one, as one."""
        return Affine(self.weight @ first.weight, self.weight @ first.bias + self.bias)

    @property
    def floats(self) -> int:
        """Numbers in it."""
        return self.weight.numel() + self.bias.numel()


@dataclass(frozen=True)
class CompiledMap:
    """The layers of a map, and of its K couplings' networks.

    Attributes:
        dim: Size D of the embeddings.
        outer: First hidden layer :math:`A_k, c_k` of each network, from ``[h_1, ..., h_(k-1), x]``.
        inner: Second one, :math:`B_k, b_k`.
        last: :math:`A, c`, from ``[h_1, ..., h_K, x]`` to the result.
    """

    dim: int
    outer: tuple[Affine, ...]
    inner: tuple[Affine, ...]
    last: Affine

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows ``(N, D)`` to ``(N, d)``, in the dtype of the layers."""
        state = x
        for k, (outer, inner) in enumerate(zip(self.outer, self.inner, strict=True)):
            hidden = inner(outer(state).relu()).relu()
            place = state.shape[1] - self.dim
            state = torch.cat([state[:, :place], hidden, x], dim=1) if k else torch.cat([hidden, x], dim=1)
        return self.last(state)

    def after(self, first: Affine) -> "CompiledMap":
        """This map after an affine one, as one."""

        def moved(layer: Affine) -> Affine:
            hidden, x = layer.weight[:, : -self.dim], layer.weight[:, -self.dim :]
            return Affine(torch.cat([hidden, x @ first.weight], dim=1), layer.bias + x @ first.bias)

        return CompiledMap(first.weight.shape[1], tuple(map(moved, self.outer)), self.inner, moved(self.last))

    @property
    def floats(self) -> int:
        """Numbers in all layers, none of them there to carry anything."""
        return sum(layer.floats for layer in (*self.outer, *self.inner, self.last))


def compile_map(fitted: Fitted | None, dim: int) -> CompiledMap:
    """Fold a fitted map, exactly but for the rounding of float64.

    Args:
        fitted: A calibration, a flow with additive couplings, a chain of them; None for no map.
        dim: Size D of the embeddings.

    Raises:
        UserError: If a step multiplies activations, as an affine coupling does.

    Example:
        >>> flow = Glow(8, levels=1, depth=2, width=4)
        >>> flow.initialize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))
        >>> x = torch.randn(3, 8, dtype=torch.float64)
        >>> torch.allclose(compile_map(flow, 8)(x).float(), flow.latents(x), atol=1e-5)
        True
    """
    builder = _Builder(dim)
    for step in steps_of(fitted):
        if isinstance(step, Glow):
            builder.add_flow(step)
        else:
            weight, bias = step.affine()
            builder.state = Affine(weight.T, bias).after(builder.state)
    return builder.result()


def compile_behind(
    own: Sequence[nn.Module], fitted: Fitted | None, dim: int
) -> tuple[list[nn.Module], CompiledMap | None]:
    """Fold a map, and what is affine of an encoder's own modules right before it.

    An affine map has no more outputs than inputs, so that one layer for both is never the larger one. The layers of a
    flow begin at the pooled tokens, whatever that costs: behind a module that has fewer outputs than inputs they grow.

    Args:
        own: Modules after the encoder's pooling.
        fitted: The map; None for none, and all modules are left.
        dim: Size D of what they give.

    Returns:
        The modules that are left, and the map.

    Raises:
        UserError: If the map is none that folds, or a flow stands behind a module that is not affine.
    """
    parts = list(own)
    if fitted is None:
        return parts, None
    compiled = compile_map(fitted, dim)
    while parts and (layer := _affine_of(parts[-1])) is not None:
        compiled = compiled.after(layer)
        parts.pop()
    if parts and compiled.outer:
        kind = type(parts[-1]).__name__
        activation = f" with {type(parts[-1].activation).__name__}" if isinstance(parts[-1], Dense) else ""
        raise UserError(
            f"modules: received a flow behind the encoder's {kind}{activation}; allowed: Dense without an activation "
            "there, whitening, or format onnx"
        )
    return parts, compiled


def steps_of(fitted: Fitted | None) -> Iterator[Calibration | Glow]:
    """The calibrations and flows that a map is made of, in order; none for no map.

    Raises:
        UserError: If a step is neither.
    """
    if not isinstance(fitted, Chain):
        if fitted is not None:
            yield fitted
        return
    from flowbert.methods.flow import Flow  # Lightning takes a second to import

    for step in fitted.steps:
        part = step.fitted.flow if isinstance(step, Flow) else step
        if not isinstance(part, Calibration | Glow):
            raise UserError(f"map: a step is a {type(part).__name__}; allowed: calibrations and flows")
        yield part


class _Builder:
    """The map so far, affine in ``[x, h_1, ..., h_k]``; new hidden layers are columns at the end."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.state = Affine(torch.eye(dim, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64))
        self.outer: list[Affine] = []
        self.inner: list[Affine] = []

    def add_flow(self, flow: Glow) -> None:
        leaving: list[Affine] = []
        for number, level in enumerate(copy.deepcopy(flow).to("cpu", torch.float64).eval().levels):
            if number:
                self.state, out = _halves(self.state)
                leaving.append(out)
            for step in level.children():
                for bijection in step.children():
                    self._add(bijection)  # type: ignore[arg-type]
        width = self.state.weight.shape[1]
        parts = [Affine(_widened(part.weight, width), part.bias) for part in (*leaving, self.state)]
        self.state = Affine(torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))

    def _add(self, bijection: Bijection) -> None:
        if not isinstance(bijection, AdditiveCoupling):
            self.state = _probe(lambda x: bijection(x)[0], len(self.state.bias)).after(self.state)
            return
        net = bijection.net
        fixed, changed = _halves(self.state)
        self.outer.append(_probe(lambda x: net.actnorm_1(x @ net.weight_1)[0], len(fixed.bias)).after(fixed))
        self.inner.append(_probe(lambda h: net.actnorm_2(h @ net.weight_2)[0], len(net.weight_2)))
        shift = _probe(net.output, len(net.weight_out))
        weight = torch.cat(
            [
                _widened(fixed.weight, fixed.weight.shape[1] + shift.weight.shape[1]),
                torch.cat([changed.weight, shift.weight], dim=1),
            ]
        )
        self.state = Affine(weight, torch.cat([fixed.bias, changed.bias + shift.bias]))

    def result(self) -> CompiledMap:
        outer = tuple(self._hidden_first(layer) for layer in self.outer)
        return CompiledMap(self.dim, outer, tuple(self.inner), self._hidden_first(self.state))

    def _hidden_first(self, layer: Affine) -> Affine:
        return Affine(layer.weight.roll(-self.dim, dims=1), layer.bias)


def _halves(state: Affine) -> tuple[Affine, Affine]:
    (first, second), (b, c) = state.weight.chunk(2), state.bias.chunk(2)
    return Affine(first, b), Affine(second, c)


def _widened(weight: Tensor, columns: int) -> Tensor:
    return torch.nn.functional.pad(weight, (0, columns - weight.shape[1]))


def _affine_of(part: nn.Module) -> Affine | None:
    if not (isinstance(part, Dense) and isinstance(part.activation, nn.Identity)):
        return None
    return _probe(copy.deepcopy(part).to("cpu", torch.float64), part.linear.in_features)


@torch.no_grad()
def _probe(apply: Callable[[Tensor], Tensor], size: int) -> Affine:
    """Weight and bias of an affine map, from what it does to 0 and to the unit vectors.

    Raises:
        UserError: If it is not affine.
    """
    unit = torch.eye(size, dtype=torch.float64)
    bias = apply(torch.zeros(1, size, dtype=torch.float64))[0]
    found = Affine((apply(unit) - bias).T, bias)
    # An affine map is told by these points; one more shows whether it is one.
    elsewhere = torch.linspace(-3, 3, size, dtype=torch.float64)[None]
    if not torch.allclose(found(elsewhere), apply(elsewhere), rtol=1e-8, atol=1e-8):
        raise UserError(
            "coupling: received one that multiplies activations (affine), as no dense layer does; allowed: additive, "
            "or format onnx"
        )
    return found
