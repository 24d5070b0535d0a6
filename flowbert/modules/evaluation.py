"""Figures of every method on the development split during a training."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.modules.callbacks import WhiteningBaseline
from flowbert.tasks import STS

Embed = Callable[[Sequence[str]], "np.ndarray[Any, Any]"]


class TaskEvaluation(Callback):
    """Log Spearman, alignment and uniformity of raw, the baseline and the trained method.

    The names are ``METHOD/TASK/SPLIT/spearman_wmean``, ``.../alignment``, ``.../uniformity`` and
    ``.../mean_cosine``.

    Args:
        tasks: Tasks of the development split.
        embed: Embeddings of sentences before the training, ``(M, D)``.
        method: Name of the trained method.
        embed_now: From sentences and their embeddings to vectors of the trained method.
    """

    def __init__(
        self,
        tasks: Sequence[STS],
        embed: Embed,
        method: str,
        embed_now: Callable[[Sequence[str], Tensor], Tensor],
    ) -> None:
        self.tasks = tasks
        self.embed = embed
        self.method = method
        self.embed_now = embed_now
        self._fixed: dict[str, float] = {}  # what the training does not change

    def on_validation_epoch_end(
        self, trainer: Trainer, pl_module: LightningModule
    ) -> None:
        """Measure and log."""
        callbacks: Any = trainer.callbacks  # type: ignore[attr-defined]
        for task in self.tasks:
            start = torch.from_numpy(self.embed(task.sentences))
            if not any(
                name.startswith(f"raw/{task.name}/{task.split}") for name in self._fixed
            ):
                self._fixed |= _figures("raw", task, start)
                for callback in callbacks:
                    if isinstance(callback, WhiteningBaseline):
                        mapped = callback.transform(start)
                        self._fixed |= _figures(
                            callback.name, task, mapped, callback.flaw
                        )
            now = self.embed_now(task.sentences, start)
            pl_module.log_dict(_figures(self.method, task, now))
        pl_module.log_dict(self._fixed)


def _figures(
    method: str, task: STS, vectors: Tensor, flaw: str | None = None
) -> dict[str, float]:
    scores = task.measure(vectors, flaw).scores
    figures = {}
    for (metric, aggregation), value in scores.items():
        name = f"{metric}_{aggregation}" if metric == "spearman" else metric
        figures[f"{method}/{task.name}/{task.split}/{name}"] = value
    return figures
