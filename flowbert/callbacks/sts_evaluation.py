"""STS figures, alignment, uniformity and mean cosine of every method, at each validation and test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.data.sts import STSTask
from flowbert.progress import tracked
from flowbert.tasks.pairs import PairEmbeddings, TaskFigures, embed_pairs, evaluate_pairs

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
    Every process computes all figures from whole tasks, so that no sampler can repeat or drop a pair. A map that was
    fitted on too little to mean anything (its ``flaw``) has no figures.
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
        measured = [(task, wanted if wanted in task.splits else "test") for task in trainer.datamodule.tasks]
        self._embed_start(measured, pl_module)
        for task, split in tracked(measured, "Evaluating", "tasks"):
            start = self._start[task.name, split]
            now = start if pl_module.frozen_encoder else embed_pairs(task, split, pl_module.sentence_embeddings)
            for name, transform in fixed.items():
                key = (name, task.name, split)
                if key not in self._fixed:
                    self._fixed[key] = evaluate_pairs(start, transform)
                self._add(pl_module, name, self._fixed[key], trained=False)
            for name, transform in pl_module.transforms().items():
                self._add(pl_module, name, evaluate_pairs(now, transform), trained=True)

    def _embed_start(self, measured: Sequence[tuple[STSTask, str]], pl_module: Any) -> None:
        """Look up the embeddings before any training, once and in one call: it may load an encoder."""
        lacking = [(task, split) for task, split in measured if (task.name, split) not in self._start]
        rows: dict[str, int] = {}
        for task, split in lacking:
            for sentence in task.sentences([split]):
                rows.setdefault(sentence, len(rows))
        embeddings: Any = pl_module.start_embeddings(list(rows)) if rows else None
        for task, split in lacking:
            self._start[task.name, split] = embed_pairs(task, split, lambda texts: embeddings[[rows[t] for t in texts]])

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
