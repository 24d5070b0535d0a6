"""STS figures, alignment, uniformity and mean cosine of every method, at each validation and test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.data.sts import STSTask
from flowbert.evaluation import PairEmbeddings, TaskFigures, embed_pairs, evaluate_pairs

Transform = Callable[[Tensor], Tensor]


@runtime_checkable
class Baseline(Protocol):
    """A callback that offers a map of raw embeddings under a name of its own."""

    name: str

    def transform(self, embeddings: Tensor) -> Tensor:
        """Map raw embeddings, ``(N, D)``."""
        ...


@dataclass(frozen=True)
class MethodFigures:
    """Figures of one method on one task, and whether the method is the one being trained."""

    method: str
    trained: bool
    figures: TaskFigures


class STSEvaluation(Callback):
    """Evaluate ``raw``, the trained method and every :class:`Baseline` callback on the data module's tasks.

    ``raw`` is the encoder before any training. Validation uses the development split where a task has one, else its
    test split; testing uses the test split. The split is part of every logged name: ``flow/STSB/dev/spearman_all``.
    Every process computes all figures from whole tasks, so that no sampler can repeat or drop a pair.
    """

    def __init__(self) -> None:
        self.figures: list[MethodFigures] = []
        self._start: dict[tuple[str, str], PairEmbeddings] = {}
        self._fixed: dict[tuple[str, str, str], TaskFigures] = {}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate on the development splits."""
        self._evaluate(trainer, pl_module, "dev")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate on the test splits."""
        self._evaluate(trainer, pl_module, "test")

    def _evaluate(self, trainer: Any, pl_module: Any, wanted: str) -> None:
        fixed: dict[str, Transform | None] = {"raw": None}
        fixed |= {callback.name: callback.transform for callback in trainer.callbacks if isinstance(callback, Baseline)}
        self.figures = []
        for task in trainer.datamodule.tasks:
            split = wanted if wanted in task.splits else "test"
            start = self._start_of(task, split, pl_module)
            now = start if pl_module.frozen_encoder else embed_pairs(task, split, pl_module.sentence_embeddings)
            for name, transform in fixed.items():
                key = (name, task.name, split)
                if key not in self._fixed:
                    self._fixed[key] = evaluate_pairs(start, transform)
                self._add(pl_module, name, self._fixed[key], trained=False)
            for name, transform in pl_module.transforms().items():
                self._add(pl_module, name, evaluate_pairs(now, transform), trained=True)

    def _start_of(self, task: STSTask, split: str, pl_module: Any) -> PairEmbeddings:
        """Embeddings before any training, looked up once."""
        key = (task.name, split)
        if key not in self._start:
            self._start[key] = embed_pairs(task, split, pl_module.start_embeddings)
        return self._start[key]

    def _add(self, pl_module: LightningModule, name: str, figures: TaskFigures, *, trained: bool) -> None:
        self.figures.append(MethodFigures(name, trained, figures))
        values = {
            "spearman_all": figures.all,
            "spearman_mean": figures.mean,
            "spearman_wmean": figures.wmean,
            "alignment": figures.alignment,
            "uniformity": figures.uniformity,
            "mean_cosine": figures.mean_cosine,
        }
        prefix = f"{name}/{figures.task}/{figures.split}"
        pl_module.log_dict({f"{prefix}/{measure}": value for measure, value in values.items()})
