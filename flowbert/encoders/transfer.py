"""Batches to an accelerator and back, without waiting for it at each of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")


def to_device(features: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Token features on a device: to a GPU from pinned memory, so that the copy runs beside its computation."""
    if device.type != "cuda":
        return {name: value.to(device) for name, value in features.items()}
    return {name: value.pin_memory().to(device, non_blocking=True) for name, value in features.items()}


def one_behind(items: Iterable[Item]) -> Iterator[Item]:
    """Each item once the next one has been asked for.

    A device then has the next batch to compute while the results of this one are fetched, and no more than two batches
    are there at a time.

    Example:
        >>> list(one_behind("abc"))
        ['a', 'b', 'c']
    """
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting
