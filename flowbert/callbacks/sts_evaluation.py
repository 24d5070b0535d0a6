"""STS figures, alignment, uniformity and mean cosine of every method, at each validation and test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.data.sts import STSTask
from flowbert.processes import dealt, embed_shared
from flowbert.tasks.pairs import PairEmbeddings, TaskFigures, embed_pairs, evaluate_pairs
from flowbert.tasks.protocol import AGGREGATIONS

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
    With several processes each embeds its share of the distinct sentences, which are gathered by index, and computes
    its share of the figures, each from a whole task: no sampler can repeat or drop a pair, and all processes have all
    figures. A map that was fitted on too little to mean anything (its ``flaw``) has no figures.
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
        measured = [(task, wanted if wanted in task.splits else "test") for task in trainer.datamodule.tasks]
        self._embed_start(trainer, measured, pl_module)
        works: dict[tuple[str, str, str], Callable[[], TaskFigures]] = {}
        for task, split in measured:
            start = now = self._start[task.name, split]
            if not pl_module.frozen_encoder:
                embed = partial(embed_shared, trainer.strategy, embed=pl_module.sentence_embeddings)
                now = embed_pairs(task, split, embed)
            for rows, maps in ((start, fixed), (now, pl_module.transforms())):
                works |= {(name, task.name, split): partial(evaluate_pairs, rows, map_) for name, map_ in maps.items()}
        lacking = {key: work for key, work in works.items() if key not in self._fixed}
        figures = dealt(trainer.strategy, list(lacking.values()), "Evaluating")
        found = self._fixed | dict(zip(lacking, figures, strict=True))
        self._fixed = {key: figures for key, figures in found.items() if key[0] in fixed}
        self.figures = [MethodFigures(key[0], key[0] not in fixed, found[key]) for key in works]
        for each in self.figures:
            _log(pl_module, each)

    def _embed_start(self, trainer: Any, measured: Sequence[tuple[STSTask, str]], pl_module: Any) -> None:
        """Look up the embeddings before any training, once and in one call: it may load an encoder."""
        lacking = [(task, split) for task, split in measured if (task.name, split) not in self._start]
        rows: dict[str, int] = {}
        for task, split in lacking:
            for sentence in task.sentences([split]):
                rows.setdefault(sentence, len(rows))
        embed = pl_module.start_embeddings
        if not pl_module.frozen_encoder:  # else they are stored
            embed = partial(embed_shared, trainer.strategy, embed=embed)
        embeddings: Any = embed(list(rows)) if rows else None
        for task, split in lacking:
            self._start[task.name, split] = embed_pairs(task, split, lambda texts: embeddings[[rows[t] for t in texts]])


def _log(pl_module: LightningModule, found: MethodFigures) -> None:
    figures = found.figures
    values = {f"spearman_{name}": getattr(figures, name) for name in AGGREGATIONS}
    values |= {name: getattr(figures, name) for name in ("alignment", "uniformity", "mean_cosine")}
    prefix = f"{found.method}/{figures.task}/{figures.split}"
    pl_module.log_dict({f"{prefix}/{measure}": value for measure, value in values.items()})
