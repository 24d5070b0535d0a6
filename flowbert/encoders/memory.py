"""Whether the weights of a network fit into the free memory, before they are loaded."""

import math
import re
from pathlib import Path

import torch
from safetensors import safe_open

from flowbert.errors import UserError
from flowbert.io import read_json

_MEMORY_FILE = Path("/proc/meminfo")
_INDEX = "model.safetensors.index.json"


def check_memory(path: str, folder: Path, dtype: torch.dtype) -> None:
    """Compare the size of weights in a precision with the free memory of the machine.

    Weights in other files than ``.safetensors``, and machines without Linux, are not examined.

    Args:
        path: The encoder as the user names it.
        folder: Its folder.
        dtype: Precision of the loaded weights.

    Raises:
        UserError: If they are larger.
    """
    match = re.search(r"MemAvailable:\s+(\d+) kB", _read(_MEMORY_FILE))
    needed = dtype.itemsize * _count_weights(folder)
    if match and needed > 1024 * int(match[1]):
        raise UserError(
            f"received {path!r}, whose weights have {needed / 1e9:.1f} GB in "
            f"{str(dtype).removeprefix('torch.')}; expected at most the free memory, "
            f"{1024 * int(match[1]) / 1e9:.1f} GB (dtype bfloat16 takes half of float32)",
            argument="encoder",
        )


def _count_weights(folder: Path) -> int:
    """Number of weights in the files of a folder, by their headers."""
    names = {"model.safetensors"}
    if (folder / _INDEX).is_file():
        names = {*read_json(folder / _INDEX)["weight_map"].values()}
    count = 0
    for file in (folder / name for name in names):
        if file.is_file():
            with safe_open(file, "pt") as tensors:
                shapes = [
                    tensors.get_slice(name).get_shape()
                    for name in tensors.keys()  # noqa: SIM118
                ]
            count += sum(map(math.prod, shapes))
    return count


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""
