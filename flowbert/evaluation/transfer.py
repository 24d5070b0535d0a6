"""Whether maps that were fitted on other text than a task's cost points on it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flowbert.errors import FlowbertWarning
from flowbert.tasks import STS, Task

_OWN = ("target", "train_only")


def warn_of_transfer(
    corpus: str,
    tasks: Sequence[Task],
    maps: Mapping[str, Any],
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
) -> None:
    """Warn where raw vectors score higher than maps on the development pairs of a task.

    Only tasks of scored pairs with a development split are asked, and none whose own sentences
    were fitted on: ``target`` and ``train_only`` are those of the first task.

    Args:
        corpus: Name of what the maps were fitted on.
        tasks: The tasks.
        maps: Fitted maps by name.
        embed: The embeddings ``(M, D)`` of sentences, which the maps take.
    """
    for task in tasks[corpus in _OWN :]:
        if not isinstance(task, STS) or "dev" not in task.data.splits:
            continue
        dev = STS(task.data, "dev")
        vectors = torch.from_numpy(embed(dev.sentences))
        raw = _spearman(dev, vectors)
        for name, fitted in maps.items():
            mapped = _spearman(dev, fitted.transform(vectors))
            if mapped < raw:
                warnings.warn(
                    f"corpus: {name} fitted on {corpus} has {100 * mapped:.2f} on the development "
                    f"pairs of {task.name}, raw vectors {100 * raw:.2f}; a map gains on text like "
                    "the one that it was fitted on",
                    FlowbertWarning,
                    stacklevel=3,
                )


def _spearman(task: STS, vectors: torch.Tensor) -> float:
    return task.score(task.items(vectors))["spearman", "wmean"]
