"""STS figures, alignment, uniformity and mean cosine of every method, at each validation and test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.evaluation import PairEmbeddings, TaskFigures, embed_pairs, evaluate_pairs


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

    Validation uses the development split where a task has one, else its test split; testing uses the test split. The
    split is part of every logged name: ``flow/STSB/dev/spearman_all``. Every process computes all figures from whole
    tasks, so that no sampler can repeat or drop a pair.
    """

    def __init__(self) -> None:
        self.figures: list[MethodFigures] = []
        self._pairs: dict[tuple[str, str], PairEmbeddings] = {}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate on the development splits."""
        self._evaluate(trainer, pl_module, "dev")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate on the test splits."""
        self._evaluate(trainer, pl_module, "test")

    def baselines(self, trainer: Trainer) -> list[Baseline]:
        """The baseline callbacks of this trainer, in order."""
        return [callback for callback in trainer.callbacks if isinstance(callback, Baseline)]  # type: ignore[attr-defined]

    def _evaluate(self, trainer: Trainer, pl_module: Any, wanted: str) -> None:
        methods: dict[str, Callable[[Tensor], Tensor]] = {"raw": lambda embeddings: embeddings}
        methods |= {baseline.name: baseline.transform for baseline in self.baselines(trainer)}
        trained = pl_module.transforms()
        methods |= trained
        self.figures = []
        for task in trainer.datamodule.tasks:  # type: ignore[attr-defined]
            split = wanted if wanted in task.splits else "test"
            pairs = self._pairs_of(task, split, pl_module)
            for name, transform in methods.items():
                figures = evaluate_pairs(pairs, transform)
                self.figures.append(MethodFigures(name, name in trained, figures))
                self._log(pl_module, f"{name}/{task.name}/{split}", figures)

    def _pairs_of(self, task: Any, split: str, pl_module: Any) -> PairEmbeddings:
        """Raw embeddings of a split, looked up once: the encoder is frozen."""
        key = (task.name, split)
        if key not in self._pairs:
            self._pairs[key] = embed_pairs(task, split, pl_module.sentence_embeddings)
        return self._pairs[key]

    def _log(self, pl_module: LightningModule, prefix: str, figures: TaskFigures) -> None:
        values = {
            "spearman_all": figures.all,
            "spearman_mean": figures.mean,
            "spearman_wmean": figures.wmean,
            "alignment": figures.alignment,
            "uniformity": figures.uniformity,
            "mean_cosine": figures.mean_cosine,
        }
        pl_module.log_dict({f"{prefix}/{name}": value for name, value in values.items()})
