"""Warning of maps that cost points on text unlike the text they were fitted on."""

import warnings
from collections.abc import Sequence

import numpy as np

from flowbert.encoders import Encoder
from flowbert.errors import FlowbertWarning
from flowbert.experiments.candidates import Candidate
from flowbert.experiments.columns import main_aggregation
from flowbert.experiments.plan import plan_experiments
from flowbert.experiments.run import run_experiments
from flowbert.maps import Raw
from flowbert.tasks import STS, Task
from flowbert.vectors import EmbeddingCache

_UNIFORMITY_LIMIT = 100  # sentences of a measure that is not used

_TRANSFER_RESAMPLES = (
    200  # the interval of the difference excludes 0, or nothing is said
)


def warn_of_transfer(
    corpus: str,
    tasks: Sequence[Task],
    encoder: Encoder,
    fitted: Sequence[Candidate],
    cache: str | EmbeddingCache | None = None,
) -> None:
    """Warn where raw vectors score higher than maps on development pairs, beyond noise.

    Only tasks of scored pairs with a development split are measured.

    Args:
        corpus: Name of what the maps were fitted on.
        tasks: The tasks whose own sentences were not fitted on.
        encoder: The encoder whose vectors they map.
        fitted: Fitted maps.
        cache: The embedding cache, or its folder.
    """
    measured = [
        STS(task.data, "dev", uniformity_limit=_UNIFORMITY_LIMIT)
        for task in tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]
    if not measured or not fitted:
        return
    raw = Candidate("raw", Raw())
    experiments = plan_experiments(
        [encoder], [raw, *fitted], dict.fromkeys(measured, ()), {}, [0]
    )
    results = run_experiments(experiments, cache, sample=False)
    frame, estimates = results.frame, results.estimates(_TRANSFER_RESAMPLES)
    chosen = frame["metric"] == STS.headline
    chosen &= frame["aggregation"] == main_aggregation(frame)
    for task in measured:
        rows = np.flatnonzero(chosen & (frame["task"] == task.name))
        lead = estimates[rows[:1]] - estimates[rows[1:]]
        costs = lead.exist & (lead.intervals[:, 0] > 0)
        for each in np.flatnonzero(costs).tolist():
            warnings.warn(
                f"corpus: on the development pairs of {task.name} raw vectors are better than "
                f"{fitted[each].name} fitted on {corpus}, by {lead.texts()[each]}; a map helps "
                "on text like the text it was fitted on",
                FlowbertWarning,
                stacklevel=2,
            )
