"""A training step as pytorch-bertflow computes it, written anew from its description.

Its sources cannot be installed. The operations are those of its flow and optimizer: vectors as
images of one pixel, a reversal as a convolution with a permutation matrix, normal distributions
with tensors of zeros and ones, a loop over the parameters in the optimizer.
https://github.com/UKPLab/pytorch-bertflow
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal


class _ActNorm(nn.Module):
    started: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, size, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, size, 1, 1))
        self.register_buffer("started", torch.tensor(1, dtype=torch.uint8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.started.item() == 0:  # the original checks it at each step
            raise RuntimeError("started is a constant here")
        exponent = self.log_scale * 3.0
        log_det = x.shape[2] * x.shape[3] * exponent.sum()
        return exponent.exp() * (x + self.shift), log_det


class _Reversal(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        weight = torch.eye(size).flip(0)[:, :, None, None]
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        return nn.functional.conv2d(x, self.weight), 0.0


class _Coupling(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        half = size // 2
        self.convolutions = nn.ModuleList(
            [
                nn.Conv2d(half, width, 1, bias=False),
                nn.Conv2d(width, width, 1, bias=False),
            ]
        )
        self.norms = nn.ModuleList([_ActNorm(width), _ActNorm(width)])
        self.last = nn.Conv2d(width, half, 1)
        self.log_scale = nn.Parameter(torch.zeros(1, half, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        fixed, changed = x.chunk(2, 1)
        hidden = fixed
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            hidden = nn.functional.relu(norm(convolution(hidden))[0], inplace=True)
        shift = self.last(hidden) * (self.log_scale * 3).exp()
        return torch.cat([fixed, changed + shift], dim=1), 0.0


class _Flow(nn.Module):
    def __init__(self, dim: int, levels: int, depth: int, width: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        for level in range(levels):
            size = dim >> level
            layers = nn.ModuleList()
            for _ in range(depth):
                layers += [_ActNorm(size), _Reversal(size), _Coupling(size, width)]
            self.levels.append(layers)

    def forward(self, embeddings: Tensor) -> Tensor:
        x = embeddings[:, :, None, None]
        rows, dim = embeddings.shape
        total = embeddings.new_zeros(())
        left = []
        for number, level in enumerate(self.levels):
            for layer in level:  # type: ignore[attr-defined]
                x, log_det = layer(x)
                total = total + log_det
            if number < len(self.levels) - 1:
                x, out = x.chunk(2, 1)
                prior = _prior(out)
                total = total + _log_density(prior, out)
                left.append((out - prior.loc) / prior.scale)
        total = total + _log_density(_prior(x), x)
        torch.cat([*left, x], dim=1).view(rows, dim)  # it returns the latents, too
        loss: Tensor = (-total / (math.log(2) * dim)).mean()
        return loss


def _prior(x: Tensor) -> Normal:
    zeros = x.new_zeros(x.shape)
    return Normal(zeros, zeros.exp())


def _log_density(prior: Normal, x: Tensor) -> Tensor:
    density: Tensor = prior.log_prob(x).sum((1, 2, 3))  # type: ignore[no-untyped-call]
    return density


class _Adam(torch.optim.Optimizer):
    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-3, "weight_decay": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["m"] = 0.9 * state["m"] + 0.1 * p.grad
                state["v"] = 0.999 * state["v"] + 0.001 * p.grad**2
                update = state["m"] / (state["v"].sqrt() + 1e-6)
                update += group["weight_decay"] * p
                p.add_(-(group["lr"] * update))


def bertflow_step(x: Tensor, levels: int, depth: int, width: int) -> Callable[[], None]:
    """A step on rows ``(B, D)``: both passes, clipping, optimizer."""
    flow = _Flow(x.shape[1], levels, depth, width).to(x.device)
    parameters = [p for p in flow.parameters() if p.requires_grad]
    optimizer = _Adam(parameters)

    def step() -> None:
        flow(x).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
