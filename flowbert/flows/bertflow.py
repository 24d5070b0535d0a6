"""Flows that pytorch-bertflow trained, read into ours: the same layers under other names."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows.glow import Glow

FILE_NAME = "glow.bin"
_STEP = re.compile(r"blocks\.(\d+)\.flows\.(\d+)\.")
_ACTNORM = {"bias": "loc", "log_scale": "logscale"}  # ours: theirs, each (1, D, 1, 1)


def read_bertflow(path: str | Path) -> Glow:
    r"""Read the flow of a model that pytorch-bertflow saved; its latents are those of the original.

    It is an additive Glow: its actnorm is :math:`(x + loc) \exp(3\, logscale)`, its "invertible convolution" a fixed
    permutation, its coupling ours. Levels, steps and width are those of the file. Nothing but tensors is unpickled.

    References:
        https://github.com/UKPLab/pytorch-bertflow

    Args:
        path: The file ``glow.bin``, the folder that it is in, or a state dict of the whole model.

    Returns:
        The flow in eval mode.

    Raises:
        UserError: If the file is missing, holds anything but tensors, or tensors of another model.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "glow.bin"
        >>> torch.save({"weight": torch.zeros(2)}, file)
        >>> read_bertflow(file)
        Traceback (most recent call last):
        flowbert.errors.UserError: ...glow.bin: no flow of pytorch-bertflow (lacks ...
    """
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    state = _read(file)
    try:
        flow = _flow_of(state)
        flow.load_state_dict(dict(_converted(state, flow)))
    except KeyError as error:
        lacking = f"lacks {error.args[0]}"
        raise UserError(f"{file}: no flow of pytorch-bertflow ({lacking}); allowed: its {FILE_NAME}") from error
    except (RuntimeError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: no flow of pytorch-bertflow ({reason}); allowed: its {FILE_NAME}") from error
    if not flow.initialized:
        raise UserError(f"{file}: the flow has seen no data yet (initialized is 0); allowed: a trained one")
    flow.check_finite()
    return flow.eval()


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"{file}: no such file; allowed: {FILE_NAME} of pytorch-bertflow, or its folder")
    try:
        content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and zipfile raise a dozen types for a file that is none of theirs
        raise UserError(f"{file}: cannot be read as tensors alone; allowed: a state dict of torch.save") from error
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{file}: holds no state dict; allowed: what torch.save wrote of glow.state_dict()")
    # A state dict of the whole model has the encoder in it, too.
    return {name.removeprefix("glow."): value for name, value in content.items() if not name.startswith("transformer.")}


def _flow_of(state: Mapping[str, Tensor]) -> Glow:
    """An unfitted flow of the sizes of a state."""
    found = [match for match in map(_STEP.match, state) if match]
    levels, depth = (1 + max((int(match[group]) for match in found), default=0) for group in (1, 2))
    permutations = [_permutation(state[f"{theirs}invconv.weight"]) for _, theirs in _steps(levels, depth)]
    reverse = all(torch.equal(each, torch.arange(len(each)).flip(0)) for each in permutations)
    width, _ = state["blocks.0.flows.0.coupling.net.0.weight"].shape[:2]
    return Glow(len(permutations[0]), levels, depth, width, mixing="reverse" if reverse else "random")


def _steps(levels: int, depth: int) -> Iterator[tuple[str, str]]:
    """Prefixes of each step, ours and theirs."""
    for level in range(levels):
        for step in range(depth):
            yield f"levels.{level}.step_{step}.", f"blocks.{level}.flows.{step}."


def _permutation(weight: Tensor) -> Tensor:
    """Places that a convolution with a permutation matrix takes its outputs from."""
    matrix = weight[:, :, 0, 0]
    places = matrix.argmax(dim=1)
    if not torch.equal(matrix, torch.eye(matrix.shape[1])[places]) or len(set(places.tolist())) < matrix.shape[1]:
        raise ValueError("a convolution is no permutation")
    return places


def _converted(state: Mapping[str, Tensor], flow: Glow) -> Iterator[tuple[str, Tensor]]:
    for ours, theirs in _steps(flow.config["levels"], flow.config["depth"]):
        yield from _actnorm(state, f"{ours}actnorm.", f"{theirs}actnorm.")
        if flow.config["mixing"] == "random":
            yield f"{ours}mixing.permutation", _permutation(state[f"{theirs}invconv.weight"])
        net, their_net = f"{ours}coupling.net.", f"{theirs}coupling.net."
        for number, place in ((1, 0), (2, 3)):
            yield f"{net}weight_{number}", state[f"{their_net}{place}.weight"][:, :, 0, 0].T
            yield from _actnorm(state, f"{net}actnorm_{number}.", f"{their_net}{place + 1}.")
        yield f"{net}weight_out", state[f"{their_net}6.conv.weight"][:, :, 0, 0].T
        yield f"{net}bias_out", state[f"{their_net}6.conv.bias"]
        yield f"{net}log_scale_out", state[f"{their_net}6.scale"].flatten()


def _actnorm(state: Mapping[str, Tensor], ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    for name, their_name in _ACTNORM.items():
        yield ours + name, state[theirs + their_name].flatten()
    yield f"{ours}initialized", state[f"{theirs}initialized"].bool()
