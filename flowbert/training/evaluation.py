"""Scores of every method on the development split during a training."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import Callback, Trainer
from torch import Tensor

from flowbert.errors import UserError
from flowbert.tasks import STS
from flowbert.training.callbacks import WhiteningBaseline


class TaskEvaluation(Callback):
    """Log Spearman, alignment and uniformity of raw, the baseline and the trained method.

    The names are ``METHOD/TASK/SPLIT/spearman_wmean``, ``.../alignment``, ``.../uniformity`` and
    ``.../mean_cosine``. Every process measures the whole split, so that nothing is gathered and
    all log the same.

    Args:
        tasks: Tasks of the development split.
        embed: Embeddings of sentences before the training, ``(M, D)``, such as
            ``encoder.encode``.
        baseline: The closed-form map beside the trained method, if any.

    Raises:
        UserError: If ``embed`` is an encoder.
    """

    def __init__(
        self,
        tasks: Sequence[STS],
        embed: Callable[[Sequence[str]], NDArray[np.float32]],
        baseline: WhiteningBaseline | None = None,
    ) -> None:
        if hasattr(embed, "encode"):
            raise UserError(
                argument="embed",
                received=type(embed).__name__,
                expected="a function of sentences, such as encoder.encode",
            )
        self.tasks = tasks
        self.embed = embed
        self.baseline = baseline
        self._fixed: dict[STS, dict[str, float]] = {}  # what training does not change

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure and log."""
        for task in self.tasks:
            start = torch.from_numpy(self.embed(task.sentences))
            if task not in self._fixed:
                self._fixed[task] = _scores("raw", task, start)
                if self.baseline is not None:
                    fitted = self.baseline.map
                    mapped = fitted.transform(start)
                    name = self.baseline.name
                    scores = _scores(name, task, mapped, fitted.invalid_reason)
                    self._fixed[task] |= scores
            now = pl_module.embed_sentences(task.sentences, start)
            pl_module.log_dict(self._fixed[task] | _scores(pl_module.name, task, now))


def _scores(
    method: str, task: STS, vectors: Tensor, invalid_reason: str | None = None
) -> dict[str, float]:
    scores = task.measure(vectors, invalid_reason).scores
    named = {}
    for (metric, aggregation), value in scores.items():
        name = f"{metric}_{aggregation}" if metric == "spearman" else metric
        named[f"{method}/{task.name}/{task.split}/{name}"] = value
    return named
