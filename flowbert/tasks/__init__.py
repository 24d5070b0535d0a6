"""Tasks that embeddings are evaluated on, by name."""

from flowbert.options import POSITIVE_ABOVE
from flowbert.tasks.base import AVERAGE, TASKS, PairTask, Record, Task
from flowbert.tasks.by_name import load_scoring, load_task, load_tasks
from flowbert.tasks.measures import (
    AGGREGATIONS,
    alignment,
    mean_cosine,
    spearman,
    sts_spearman,
    uniformity,
)
from flowbert.tasks.sts import STS, Pairs

__all__ = [
    "AGGREGATIONS",
    "AVERAGE",
    "POSITIVE_ABOVE",
    "STS",
    "TASKS",
    "PairTask",
    "Pairs",
    "Record",
    "Task",
    "alignment",
    "load_scoring",
    "load_task",
    "load_tasks",
    "mean_cosine",
    "spearman",
    "sts_spearman",
    "uniformity",
]
