"""Scores of every method on the development split during a training, and on the test split."""

from collections.abc import Sequence
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from torch import Tensor

from flowbert.tasks import STS


class TaskEvaluation(Callback):
    """Log Spearman, alignment and uniformity of raw, the baseline and the trained method.

    The names are ``METHOD/TASK/SPLIT/spearman_wmean``, ``.../alignment``, ``.../uniformity`` and
    ``.../mean_cosine``; after a head that is a map, the method is ``METHOD+head``. Every process
    measures the whole split, so that all log the same without communication. ``Trainer.test``
    measures the test split of the tasks.

    Args:
        tasks: Tasks of the development split.
        embed: Embeddings of sentences before the training, ``(M, D)``: an encoder, or a function
            such as ``encoder.encode``.
        baseline: A :class:`WhiteningBaseline` or fitted map to compare the trained method with.
    """

    def __init__(
        self,
        tasks: Sequence[STS],
        embed: Any,
        baseline: Any = None,
    ) -> None:
        self.tasks = tasks
        self.embed = getattr(embed, "encode", embed)
        self.baseline = getattr(baseline, "map", baseline)
        self._fixed: dict[STS, dict[str, float]] = {}  # what training does not change

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Forget the baseline and the scores of an earlier fit."""
        self._fixed = {}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure and log."""
        self._log(self.tasks, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure and log the test split of the tasks that have one."""
        tested = [task for task in self.tasks if "test" in task.data.splits]
        self._log([task.other_split("test") for task in tested], pl_module)

    def _log(self, tasks: Sequence[STS], pl_module: Any) -> None:
        for task in tasks:
            start = torch.from_numpy(self.embed(task.sentences))
            if task not in self._fixed:
                self._fixed[task] = _scores("raw", task, start)
                if self.baseline is not None:
                    mapped = self.baseline.transform(start)
                    reason = self.baseline.invalid_reason
                    self._fixed[task] |= _scores(
                        self.baseline.text, task, mapped, reason
                    )
            now = pl_module.embed_sentences(task.sentences, start)
            figures = self._fixed[task] | _scores(pl_module.name, task, now)
            for name, mapped in pl_module.mapped(now).items():
                figures |= _scores(name, task, mapped)
            # Equal on all processes; the largest is exactly that, a mean may not be.
            pl_module.log_dict(figures, sync_dist=True, reduce_fx="max")


def score_name(
    method: str, task: str, split: str, metric: str, aggregation: str
) -> str:
    """Name of a score in logs, such as ``whitening/STSB/test/spearman_wmean``."""
    if metric == "spearman":
        metric = f"{metric}_{aggregation}"
    return f"{method}/{task}/{split}/{metric}"


def _scores(
    method: str, task: STS, vectors: Tensor, invalid_reason: str | None = None
) -> dict[str, float]:
    scores = task.measure(vectors, invalid_reason).scores
    return {
        score_name(method, task.name, task.split, *metric): value
        for metric, value in scores.items()
    }
