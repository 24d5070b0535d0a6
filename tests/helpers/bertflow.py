"""The flow of pytorch-bertflow from its formulas, over a state dict with its names: made up, and applied."""

import torch
from torch import Tensor

State = dict[str, Tensor]


def random_state(dim: int, levels: int = 3, depth: int = 3, width: int = 32, seed: int = 0) -> State:
    """A state dict of a trained flow of D dimensions whose every parameter is away from its start."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float = 0.2) -> Tensor:
        return std * torch.randn(*shape, generator=generator)

    def actnorm(prefix: str, size: int) -> State:
        started = {f"{prefix}.initialized": torch.tensor(1, dtype=torch.uint8)}
        return {f"{prefix}.loc": normal(1, size, 1, 1), f"{prefix}.logscale": normal(1, size, 1, 1, std=0.05)} | started

    state: State = {}
    for level in range(levels):
        size = dim >> level
        for step in range(depth):
            prefix = f"blocks.{level}.flows.{step}"
            net = f"{prefix}.coupling.net"
            state |= actnorm(f"{prefix}.actnorm", size)
            state[f"{prefix}.invconv.weight"] = torch.eye(size).flip(0)[:, :, None, None]
            state[f"{net}.0.weight"] = normal(width, size // 2, 1, 1)
            state |= actnorm(f"{net}.1", width)
            state[f"{net}.3.weight"] = normal(width, width, 1, 1)
            state |= actnorm(f"{net}.4", width)
            state[f"{net}.6.conv.weight"] = normal(size // 2, width, 1, 1)
            state[f"{net}.6.conv.bias"] = normal(size // 2)
            state[f"{net}.6.scale"] = normal(1, size // 2, 1, 1, std=0.1)
    return state


def latents(state: State, x: Tensor) -> Tensor:
    """Latents of rows ``(N, D)``, in float64: what leaves each level but the last, and what remains."""
    s = {name: value.double() for name, value in state.items()}
    x = x.double()

    def actnorm(prefix: str, y: Tensor) -> Tensor:
        return (y + s[f"{prefix}.loc"].flatten()) * (3 * s[f"{prefix}.logscale"].flatten()).exp()

    def convolution(name: str, y: Tensor) -> Tensor:
        return y @ s[f"{name}.weight"][:, :, 0, 0].T

    levels = 1 + max(int(name.split(".")[1]) for name in state)
    depth = 1 + max(int(name.split(".")[3]) for name in state)
    left = []
    for level in range(levels):
        for step in range(depth):
            prefix = f"blocks.{level}.flows.{step}"
            net = f"{prefix}.coupling.net"
            x = convolution(f"{prefix}.invconv", actnorm(f"{prefix}.actnorm", x))
            a, b = x.chunk(2, dim=1)
            hidden = actnorm(f"{net}.1", convolution(f"{net}.0", a)).relu()
            hidden = actnorm(f"{net}.4", convolution(f"{net}.3", hidden)).relu()
            shift = convolution(f"{net}.6.conv", hidden) + s[f"{net}.6.conv.bias"]
            x = torch.cat([a, b + shift * (3 * s[f"{net}.6.scale"].flatten()).exp()], dim=1)
        if level < levels - 1:
            x, out = x.chunk(2, dim=1)
            left.append(out)
    return torch.cat([*left, x], dim=1)
