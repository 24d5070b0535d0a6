"""Base class of all LightningModules: optimizer, random numbers, checks, checkpoints."""

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer

from flowbert.errors import UserError, check_choice
from flowbert.numbers import is_number
from flowbert.registry import imports_refused
from flowbert.seeding import Stream
from flowbert.training.callbacks import TrainingThreads
from flowbert.training.optim import SCHEDULES, make_schedule

_CHECK_EVERY = 50  # losses: reading one waits for an accelerator
_LARGEST_FLOAT = sys.float_info.max

Limit = tuple[Callable[[float], bool], str]
"""Which numbers are allowed: a test, and the same in words."""

AT_LEAST_0: Limit = (lambda value: value >= 0, "at least 0")
AT_LEAST_1: Limit = (lambda value: value >= 1, "at least 1")
ABOVE_0: Limit = (lambda value: value > 0, "above 0")
SHARE_ABOVE_0: Limit = (lambda value: 0 < value < 1, "above 0 and below 1")
SHARE_OR_NONE: Limit = (lambda value: 0 <= value < 1, "0 to below 1")

LIMITS: dict[str, Limit] = {
    "batch_size": AT_LEAST_1,
    "chunk_size": AT_LEAST_1,
    "cosreg_weight": AT_LEAST_0,
    "dropout": SHARE_OR_NONE,
    "every_n_minutes": ABOVE_0,
    "every_n_steps": ABOVE_0,
    "head_refit_every": AT_LEAST_1,
    "held_out": (lambda value: 0 <= value <= 0.5, "0 to 0.5"),
    "learning_rate": ABOVE_0,
    "margin": ABOVE_0,
    "mask_fraction": SHARE_ABOVE_0,
    "max_length": AT_LEAST_1,
    "mlm_weight": AT_LEAST_0,
    "noise": AT_LEAST_0,
    "pool": AT_LEAST_1,
    "seed": (lambda value: 0 <= value < 2**63, "0 to 2**63 - 1"),
    "init_size": (lambda value: value >= 2, "at least 2"),
    "warmup": SHARE_OR_NONE,
    "weight_decay": AT_LEAST_0,
    "workers": AT_LEAST_0,
}
"""Limits by argument."""


def check_limits(**values: Any) -> None:
    """Check arguments by their names; None and names that are not in :data:`LIMITS` pass.

    Raises:
        UserError: With the argument, the value received and what is expected.
    """
    for name, value in values.items():
        if name in LIMITS and value is not None:
            allows, expected = LIMITS[name]
            if not is_number(value, -_LARGEST_FLOAT, _LARGEST_FLOAT) or not allows(
                value
            ):
                raise UserError(argument=name, received=value, expected=expected)


class TrainingModule(LightningModule):
    """Base of the modules.

    The arguments of a subclass are its hyper-parameters, ``learning_rate``, ``weight_decay``,
    ``schedule``, ``warmup`` and ``seed`` among them.

    Attributes:
        invalid_reason: Why what was trained is undefined, in one line; None if it is not.
        fitted_on: Identity of the encoder and digest of the corpus, which checkpoints hold.

    Raises:
        UserError: If an argument is outside of its limits.
    """

    def __init__(self) -> None:
        super().__init__()
        # Lightning finds them in the calls of the constructors that led here.
        self.save_hyperparameters(ignore=["encoder"])
        check_limits(**self.hparams)
        check_choice("schedule", self.hparams["schedule"], SCHEDULES)
        self.invalid_reason: str | None = None
        self.fitted_on: dict[str, Any] = {}
        self._total_steps: float = math.inf
        self._saved_steps: tuple[int, float] | None = None  # done, and in all
        self._unchecked: list[tuple[int, Tensor]] = []
        self._gradients: dict[str, Tensor] = {}
        self._from_last_batch = False

    @classmethod
    def load_from_checkpoint(cls, *args: Any, **options: Any) -> Any:
        """The module of a checkpoint, see Lightning; a file imports no code."""
        with imports_refused():
            return super().load_from_checkpoint(*args, **options)

    def mapped(self, embeddings: Tensor) -> dict[str, Tensor]:
        """Further embeddings to measure, by their names in metrics.

        Args:
            embeddings: Those of sentences with the present weights, ``(N, D)``.
        """
        return {}

    def configure_callbacks(self) -> list[Callback]:
        """Threads by the size of the work."""
        return [TrainingThreads()]

    @property
    def numbers_at_once(self) -> float:
        """Number of values in a typical tensor of a training step; it sets the number of threads.

        Infinity for an encoder: hidden states of all tokens of a batch.
        """
        return math.inf

    def scheduled(self, optimizer: Optimizer) -> OptimizerLRScheduler:
        """An optimizer with the schedule of the hyper-parameters, per step."""
        schedule, warmup = self.hparams["schedule"], self.hparams["warmup"]
        self._total_steps = self.trainer.estimated_stepping_batches
        endless = math.isinf(self._total_steps)
        if endless and self._depends_on_length:
            raise UserError(
                f"received {self._schedule_text()} for a training without an end; "
                "expected max_steps or max_epochs, or a constant schedule without warm-up",
                argument="model.schedule",
            )
        self._check_length()
        steps = 0 if endless else int(self._total_steps)
        scheduler = make_schedule(optimizer, schedule, warmup, steps)
        # A fused step unscales float16 gradients by itself, too late to clip them.
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    @property
    def _depends_on_length(self) -> bool:
        """Whether the learning rate of a step depends on the number of all steps."""
        return bool(self.hparams["schedule"] != "constant" or self.hparams["warmup"])

    def _schedule_text(self) -> str:
        schedule, warmup = self.hparams["schedule"], self.hparams["warmup"]
        return f"{schedule!r}{f' with warm-up {warmup}' if warmup else ''}"

    def stream(self, name: str) -> Stream:
        """Random numbers of the current batch on this process, the same in a resumed run."""
        batch = self.trainer.fit_loop.total_batch_idx
        return Stream(self.hparams["seed"], name, batch=batch, rank=self.global_rank)

    def check_loss(self, loss: Tensor) -> None:
        """Stop at a loss that is not finite; on an accelerator some steps later."""
        self._unchecked.append((self.global_step, loss.detach()))
        if self.device.type == "cpu" or len(self._unchecked) == _CHECK_EVERY:
            self.check_losses()

    def check_losses(self) -> None:
        """Check the losses that were not checked yet.

        Raises:
            UserError: With the step of the first that is not finite.
        """
        unchecked, self._unchecked = self._unchecked, []
        for step, loss in unchecked:
            if not torch.isfinite(loss):
                raise UserError(
                    f"received {self.hparams['learning_rate']}, and the loss is "
                    f"{loss.item()} at step {step}; expected a lower one, or a gradient_clip_val",
                    argument="learning_rate",
                )

    def on_train_start(self) -> None:
        """Restore the gradients of a checkpoint that was written while they accumulated."""
        self._check_length()  # of a strategy that reads the checkpoint after the optimizer
        for name, parameter in self.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name].to(parameter.device)
        self._gradients = {}

    def _check_length(self) -> None:
        """Check that the steps that were done do not depend on the new length.

        Raises:
            UserError: If the run had another number of steps and a schedule over them, or if more
                steps were done than are wanted.
        """
        if self._saved_steps is None:
            return
        (done, before), self._saved_steps = self._saved_steps, None
        wanted = self._total_steps
        name = "max_epochs" if self.trainer.max_steps == -1 else "max_steps"
        if wanted < done:
            raise UserError(
                f"received a training of {wanted} steps for a checkpoint after "
                f"{done}; expected at least as many, or a new training",
                argument=f"trainer.{name}",
            )
        if wanted != before and self._depends_on_length:
            raise UserError(
                f"received a training of {wanted} steps; expected {before} as in "
                f"the checkpoint, because its schedule {self._schedule_text()} depends on the "
                "length (a constant one without warm-up does not)",
                argument=f"trainer.{name}",
            )

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Stop where Lightning 2.6 would train a batch in the wrong epoch, and step too early."""
        if (
            batch_idx >= self.trainer.num_training_batches
            and self.trainer.accumulate_grad_batches > 1
        ):
            raise UserError(
                "received a checkpoint of the end of an epoch, from which Lightning "
                "cannot resume with max_steps and accumulate_grad_batches; expected max_epochs, or "
                "a checkpoint from within an epoch",
                argument="ckpt_path",
            )

    def on_train_end(self) -> None:
        """Check the last losses."""
        self.check_losses()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what a resumed run needs, and what the module was fitted on."""
        self.check_losses()
        self._mark_end_of_epoch(checkpoint)
        checkpoint["module"] = type(self).__name__
        checkpoint["fitted_on"] = self.fitted_on
        checkpoint["total_steps"] = self._total_steps
        checkpoint["invalid_reason"] = self.invalid_reason
        checkpoint["from_last_batch"] = self._from_last_batch
        if self.trainer.fit_loop._should_accumulate():
            checkpoint["gradients"] = {
                name: self.trainer.strategy.reduce(parameter.grad.clone())
                for name, parameter in self.named_parameters()
                if parameter.grad is not None
            }

    def _mark_end_of_epoch(self, checkpoint: dict[str, Any]) -> None:
        """Say plainly whether an epoch that has ended left batches, so that a fit resumes exactly.

        Lightning counts an epoch that ``max_steps`` ends as one that was trained: a resumed
        run would leave its other batches out. And with ``max_steps`` it resumes from the end of a
        whole epoch as if that were not over: a step less is done in the end.
        """
        loops = checkpoint["loops"]["fit_loop"]
        epochs = loops["epoch_progress"]
        if epochs["current"]["processed"] != epochs["current"]["ready"]:
            return
        batches = loops["epoch_loop.batch_progress"]
        if 0 < batches["current"]["ready"] < self.trainer.num_training_batches:
            for progress in (epochs["current"], epochs["total"]):
                progress["processed"] -= 1
                progress["completed"] = progress["processed"]
            return
        for progress in (epochs["current"], epochs["total"]):
            progress["completed"] = progress["processed"]
        batches["is_last_batch"] = False
        steps = loops["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]
        for counted in (
            batches,
            loops["epoch_loop.scheduler_progress"],
            *steps.values(),
        ):
            counted["current"] = dict.fromkeys(counted["current"], 0)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore what a checkpoint holds.

        Raises:
            UserError: If the checkpoint is one of another module or training, or a fit cannot
                resume exactly.
        """
        expected, received = type(self).__name__, checkpoint.get("module")
        if received != expected:
            raise UserError(
                f"received a checkpoint of {received}; expected {expected}",
                argument="ckpt_path",
            )
        self.invalid_reason = checkpoint["invalid_reason"]
        self._gradients = checkpoint.get("gradients", {})
        if self._trainer is not None and self.trainer.state.fn == "fit":
            self._saved_steps = checkpoint["global_step"], checkpoint["total_steps"]
            self._check_resumable(checkpoint)

    def _check_resumable(self, checkpoint: dict[str, Any]) -> None:
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        batches = progress["total"]
        if batches["ready"] != batches["processed"]:
            raise UserError(
                "received a checkpoint of the middle of a batch, written after an "
                "error or Ctrl-C; expected one from between two batches, such as last.ckpt",
                argument="ckpt_path",
            )
        # Lightning 2.6 counts one epoch too few after a resume from the last batch of an epoch.
        if checkpoint["from_last_batch"] and self.trainer.max_steps == -1:
            raise UserError(
                "received a checkpoint of a run that had resumed from the last batch of "
                "an epoch, which Lightning cannot resume again; expected an earlier checkpoint",
                argument="ckpt_path",
            )
        ended = batches["processed"] == batches["completed"]
        if checkpoint["from_last_batch"] or (progress["is_last_batch"] and not ended):
            self._from_last_batch = True
