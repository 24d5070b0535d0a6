"""Corrections of Lightning 2.6, with which a resumed fit ends like an uninterrupted one."""

import math
from typing import Any

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import GradientAccumulationScheduler
from torch import Tensor

from flowbert.errors import UserError


class ExactResume(Callback):
    """Let a fit resume exactly from checkpoints within epochs and at their ends.

    Every module of this package has one. A checkpoint that was written in the middle of a batch,
    by a ``ModelCheckpoint(save_on_exception=True)``, is not resumed exactly; nor is one of a run
    that had resumed from the last batch of an epoch.

    Raises:
        UserError: If the run had another number of steps and a schedule over them, if more steps
            were done than are wanted, or if another callback has reset the training.
    """

    def __init__(self) -> None:
        self._gradients: dict[str, Tensor] = {}
        self._saved_steps: tuple[int, float] | None = None  # done, and in all
        # None before the fit starts: Lightning's finders save and load checkpoints then.
        self._total_steps: float | None = None

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Add the length of the training, and the gradients that accumulate."""
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
        """Check that the steps that were done do not depend on the new length."""
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
        """Restore the gradients of a checkpoint that was written while they accumulated."""
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
    """Say whether an epoch that has ended left batches.

    Lightning counts an epoch that ``max_steps`` ends as one that was trained: a resumed run would
    leave its other batches out. And with ``max_steps`` it resumes from the end of a whole epoch as
    if that were not over: a step less is done in the end.
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
