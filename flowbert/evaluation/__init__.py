"""Evaluation by one protocol: cosine, Spearman, three aggregations that are always named."""

from flowbert.evaluation.grid import Cell, Request, Source, run
from flowbert.evaluation.results import Row, fingerprint, load_results, merge_results, rows_of, write_results
from flowbert.methods.base import Method
from flowbert.tasks.base import AnswersJob, Job, Measured, RetrievalJob, STSJob
from flowbert.tasks.lexical import edit_distances, lexical_figures
from flowbert.tasks.pairs import ScoredPairs, score_pairs
from flowbert.tasks.protocol import (
    Aggregates,
    PairEmbeddings,
    SubsetFigures,
    SubsetPairs,
    TaskFigures,
    aggregate,
    embed_pairs,
    evaluate_pairs,
    evaluate_task,
    similarities,
)
from flowbert.tasks.ranking import RankingFigures, rank_answers
from flowbert.tasks.retrieval import RetrievalFigures, retrieval_task, retrieve

__all__ = [
    "Aggregates",
    "AnswersJob",
    "Cell",
    "Job",
    "Measured",
    "Method",
    "PairEmbeddings",
    "RankingFigures",
    "Request",
    "RetrievalFigures",
    "RetrievalJob",
    "Row",
    "STSJob",
    "ScoredPairs",
    "Source",
    "SubsetFigures",
    "SubsetPairs",
    "TaskFigures",
    "aggregate",
    "edit_distances",
    "embed_pairs",
    "evaluate_pairs",
    "evaluate_task",
    "fingerprint",
    "lexical_figures",
    "load_results",
    "merge_results",
    "rank_answers",
    "retrieval_task",
    "retrieve",
    "rows_of",
    "run",
    "score_pairs",
    "similarities",
    "write_results",
]
