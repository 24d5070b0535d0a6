"""Whether maps that were fitted on other text than a task's cost points on it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flowbert.errors import FlowbertWarning
from flowbert.experiments.estimates import Estimate
from flowbert.tasks import STS, Task

_OWN = ("target", "train_only")
_RESAMPLES = 200  # the 95% interval of the difference excludes 0, or nothing is said


def warn_of_transfer(
    corpus: str,
    tasks: Sequence[Task],
    maps: Mapping[str, Any],
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
) -> None:
    """Warn where raw vectors score higher than maps on development pairs, beyond noise.

    Only tasks of scored pairs with a development split are asked, and none whose own sentences
    were fitted on: ``target`` and ``train_only`` are those of the first task.

    Args:
        corpus: Name of what the maps were fitted on.
        tasks: The tasks.
        maps: Fitted maps by name.
        embed: The embeddings ``(M, D)`` of sentences, which the maps take.
    """
    for task in tasks[corpus in _OWN :] if maps else ():
        if not isinstance(task, STS) or "dev" not in task.data.splits:
            continue
        dev = STS(task.data, "dev")
        vectors = torch.from_numpy(embed(dev.sentences))
        mapped = {name: fitted.transform(vectors) for name, fitted in maps.items()}
        raw, *figures = _estimates(dev, [vectors, *mapped.values()])
        for name, figure in zip(mapped, figures, strict=True):
            lead = raw - figure
            if lead.exists and lead.interval[0] > 0:
                warnings.warn(
                    f"corpus: on the development pairs of {task.name} raw vectors are better than "
                    f"{name} fitted on {corpus}, by {lead.text()}; a map gains on text like the "
                    "one that it was fitted on",
                    FlowbertWarning,
                    stacklevel=3,
                )


def _estimates(task: STS, vectors: Sequence[torch.Tensor]) -> list[Estimate]:
    """Spearman of a task with vectors of several methods, on the same resamples."""
    items = {str(number): task.items(rows) for number, rows in enumerate(vectors)}
    finite = {number: row for number, row in items.items() if np.isfinite(row).all()}
    drawn = task.resample(finite, _RESAMPLES, seed=0)["spearman", "wmean"]
    replicates = dict(zip(finite, drawn, strict=True))
    missing = np.full(_RESAMPLES, np.nan)
    return [
        Estimate(task.score(row)["spearman", "wmean"], replicates.get(number, missing))
        for number, row in items.items()
    ]
