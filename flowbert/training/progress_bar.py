"""Lightning's progress bar, drawn by :mod:`flowbert.progress`: on a terminal, as lines elsewhere, or not at all."""

import math
import time
from contextlib import ExitStack
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ProgressBar
from torch import Tensor

from flowbert.progress import Step, is_hidden, progress, shown

_NOTE_EVERY = 1.0  # seconds: reading a loss waits for an accelerator


class TrainingProgress(ProgressBar):
    """Steps of a training with the loss; batches of a validation, a test and a prediction.

    Args:
        on: Whether they are shown, unless progress is switched off; default: as :func:`flowbert.progress.shown` says.
    """

    def __init__(self, on: bool | None = None) -> None:
        super().__init__()
        self._on, self._enabled = on, True
        self._open: list[tuple[ExitStack, Step]] = []
        self._noted = 0.0

    def disable(self) -> None:
        """Show nothing, as on all processes but the first."""
        self._enabled = False

    def enable(self) -> None:
        """Show what is going on again."""
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with the step that the training begins with."""
        self._begin("Training", trainer.estimated_stepping_batches, "steps", trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the step, and the loss now and then."""
        _, step = self._open[-1]
        step.done = trainer.global_step
        now = time.monotonic()
        if now - self._noted > _NOTE_EVERY:
            self._noted = now
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            step.note = f"loss {loss.item():.4g}" if isinstance(loss, Tensor) else ""

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a validation."""
        sanity = trainer.sanity_checking
        self._begin("Validating", _sum(trainer.num_sanity_val_batches if sanity else trainer.num_val_batches))

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a test."""
        self._begin("Testing", _sum(trainer.num_test_batches))

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a prediction."""
        self._begin("Predicting", _sum(trainer.num_predict_batches))

    def on_validation_batch_end(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch."""
        self._open[-1][1].update()

    on_test_batch_end = on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What began is over."""
        stack, _ = self._open.pop()
        stack.close()

    on_train_end = on_test_end = on_predict_end = on_validation_end

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Close what an error left open."""
        while self._open:
            self.on_validation_end(trainer, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """The same, before anything is said."""
        self.teardown(trainer, pl_module, "")

    def _begin(self, what: str, total: float, unit: str = "batches", done: int = 0) -> None:
        stack = ExitStack()
        stack.enter_context(shown(self._on if self._enabled and not is_hidden() else False))
        known = int(total) if math.isfinite(total) else None
        self._open.append((stack, stack.enter_context(progress(known, what, unit, done=done))))


def _sum(batches: Any) -> float:
    return float(sum(batches)) if isinstance(batches, list) else float(batches)
