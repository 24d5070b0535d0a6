"""What methods are measured on: every kind of task under one contract, :class:`flowbert.tasks.base.Task`."""

from flowbert.tasks.answers import AnswerRanking
from flowbert.tasks.base import KINDS, Figure, Measured, Task, load_tasks
from flowbert.tasks.lexical import Lexical
from flowbert.tasks.options import TaskOptions
from flowbert.tasks.pairs import PairEmbeddings, TaskFigures, embed_pairs, evaluate_pairs, evaluate_task
from flowbert.tasks.probe import Probe
from flowbert.tasks.protocol import aggregate
from flowbert.tasks.retrieval import Retrieval
from flowbert.tasks.sts import STS

__all__ = [
    "KINDS",
    "STS",
    "AnswerRanking",
    "Figure",
    "Lexical",
    "Measured",
    "PairEmbeddings",
    "Probe",
    "Retrieval",
    "Task",
    "TaskFigures",
    "TaskOptions",
    "aggregate",
    "embed_pairs",
    "evaluate_pairs",
    "evaluate_task",
    "load_tasks",
]
