"""Corrections of Lightning 2.6, so that a resumed fit ends like an uninterrupted one."""

import math
from typing import Any

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import GradientAccumulationScheduler
from torch import Tensor

from flowbert.errors import UserError


class ExactResume(Callback):
    """Let a fit resume exactly from checkpoints within epochs and at their ends.

    All modules of flowbert use this callback. Two kinds of checkpoints do not resume exactly: those
    written in the middle of a batch by a ``ModelCheckpoint(save_on_exception=True)``, and those of
    a run that had resumed from the last batch of an epoch.

    Raises:
        UserError: If the number of steps has changed and the schedule depends on it, if more steps
            were done than the new length has, or if another callback has reset the training.
    """

    def __init__(self) -> None:
        self._gradients: dict[str, Tensor] = {}
        self._saved_steps: tuple[int, float] | None = None  # done, and in all
        # None before the fit starts: Lightning's finders save and load checkpoints then.
        self._total_steps: float | None = None

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Add the length of the training, and accumulated gradients."""
        checkpoint["total_steps"] = self._total_steps
        _mark_end_of_epoch(
            checkpoint["loops"]["fit_loop"], trainer.num_training_batches
        )
        if trainer.fit_loop._should_accumulate():
            checkpoint["gradients"] = {
                name: trainer.strategy.reduce(parameter.grad.clone())
                for name, parameter in pl_module.named_parameters()
                if parameter.grad is not None
            }

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Keep them until the training starts."""
        if trainer.state.fn == "fit" and checkpoint["total_steps"] is not None:
            self._gradients = checkpoint.get("gradients", {})
            self._saved_steps = checkpoint["global_step"], checkpoint["total_steps"]

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Check that the finished steps do not depend on the length."""
        wanted = self._total_steps = count_steps(trainer)
        if self._saved_steps is None:
            return
        done, before = self._saved_steps
        name = "max_epochs" if trainer.max_steps == -1 else "max_steps"
        if wanted < done:
            raise UserError(
                f"received a training of {wanted} steps for a checkpoint after "
                f"{done}; expected at least as many, or a new training",
                argument=f"trainer.{name}",
            )
        schedule = pl_module.schedule_over_length
        if wanted != before and schedule:
            raise UserError(
                f"received a training of {wanted} steps; expected {before} as in "
                f"the checkpoint, because its schedule {schedule} depends on the "
                "length (a constant one without warm-up does not)",
                argument=f"trainer.{name}",
            )

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Restore accumulated gradients."""
        if (
            self._saved_steps is not None
            and trainer.global_step != self._saved_steps[0]
        ):
            raise UserError(
                f"received one that resets the training to step {trainer.global_step}, after a "
                f"checkpoint of step {self._saved_steps[0]}; expected none of Lightning's finders "
                "with ckpt_path",
                argument="trainer.callbacks",
            )
        for name, parameter in pl_module.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name].to(parameter.device)
        self._gradients = {}


def count_steps(trainer: Trainer) -> float:
    """Number of optimizer steps of a fit, also if a callback accumulates by epoch."""
    steps: float = trainer.estimated_stepping_batches
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if (
            isinstance(callback, GradientAccumulationScheduler)
            and trainer.max_epochs != -1
        ):
            batches = trainer.num_training_batches
            sizes = map(
                callback.get_accumulate_grad_batches, range(trainer.max_epochs or 0)
            )
            steps = sum(math.ceil(batches / size) for size in sizes)
            steps = steps if trainer.max_steps == -1 else min(steps, trainer.max_steps)
    return steps


def _mark_end_of_epoch(loops: dict[str, Any], num_batches: float) -> None:
    """Mark in a checkpoint whether the ended epoch has unused batches.

    If ``max_steps`` ends an epoch, Lightning counts it as finished, and a resumed run would skip
    the rest. If ``max_steps`` is set, Lightning also resumes from the end of a whole epoch as
    if it were unfinished, and does one step less.
    """
    epochs, batches = loops["epoch_progress"], loops["epoch_loop.batch_progress"]
    if epochs["current"]["processed"] != epochs["current"]["ready"]:
        return
    if 0 < batches["current"]["ready"] < num_batches:
        for progress in (epochs["current"], epochs["total"]):
            progress["processed"] -= 1
            progress["completed"] = progress["processed"]
        return
    for progress in (epochs["current"], epochs["total"]):
        progress["completed"] = progress["processed"]
    batches["is_last_batch"] = False
    steps = loops["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]
    for counted in (batches, loops["epoch_loop.scheduler_progress"], *steps.values()):
        counted["current"] = dict.fromkeys(counted["current"], 0)
