"""What all LightningModules share: optimizer settings, random numbers, checks, checkpoints."""

import math
from collections.abc import Callable
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer

from flowbert.errors import UserError, check_choice
from flowbert.modules.callbacks import FastTraining
from flowbert.modules.optim import SCHEDULES, make_schedule
from flowbert.seeding import Stream

_CHECK_EVERY = 50  # losses: reading one waits for an accelerator

Limit = tuple[Callable[[float], bool], str]
"""Which numbers are allowed: a test, and the same in words."""

AT_LEAST_0: Limit = (lambda value: value >= 0, "at least 0")
AT_LEAST_1: Limit = (lambda value: value >= 1, "at least 1")
ABOVE_0: Limit = (lambda value: value > 0, "above 0")
A_SHARE: Limit = (lambda value: 0 < value < 1, "above 0 and below 1")
A_SHARE_OR_0: Limit = (lambda value: 0 <= value < 1, "0 to below 1")

LIMITS: dict[str, Limit] = {
    "batch_size": AT_LEAST_1,
    "chunk_size": AT_LEAST_1,
    "cosreg_weight": AT_LEAST_0,
    "dropout": A_SHARE_OR_0,
    "every_n_minutes": ABOVE_0,
    "every_n_steps": ABOVE_0,
    "held_out": (lambda value: 0 <= value <= 0.5, "0 to 0.5"),
    "learning_rate": ABOVE_0,
    "margin": ABOVE_0,
    "mask_fraction": A_SHARE,
    "max_length": AT_LEAST_1,
    "mlm_weight": AT_LEAST_0,
    "noise": AT_LEAST_0,
    "pool": AT_LEAST_1,
    "positive_rate": A_SHARE,
    "seed": (lambda value: 0 <= value < 2**63, "0 to 2**63 - 1"),
    "start_size": (lambda value: value >= 2, "at least 2"),
    "warmup": A_SHARE_OR_0,
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
            infinite = isinstance(value, float) and not math.isfinite(value)
            if infinite or not allows(value):
                raise UserError(f"{name}: received {value}; expected {expected}")


class TrainingModule(LightningModule):
    """Base of the modules.

    The arguments of a subclass are its hyper-parameters, ``learning_rate``, ``weight_decay``,
    ``schedule``, ``warmup`` and ``seed`` among them.

    Attributes:
        flaw: Why the results of what was trained mean nothing, in one line; None if they do.

    Raises:
        UserError: If an argument is outside of its limits.
    """

    def __init__(self) -> None:
        super().__init__()
        # Lightning finds them in the calls of the constructors that led here.
        self.save_hyperparameters(ignore=["encoder", "loss"])
        check_limits(**self.hparams)
        check_choice("schedule", self.hparams["schedule"], SCHEDULES)
        self.flaw: str | None = None
        self._unchecked: list[tuple[int, Tensor]] = []
        self._gradients: dict[str, Tensor] = {}
        self._from_last_batch = False

    def configure_callbacks(self) -> list[Callback]:
        """Make training on a CPU fast."""
        return [FastTraining()]

    def scheduled(self, optimizer: Optimizer) -> OptimizerLRScheduler:
        """An optimizer with the schedule of the hyper-parameters, per step."""
        schedule, warmup = self.hparams["schedule"], self.hparams["warmup"]
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler = make_schedule(optimizer, schedule, warmup, steps)
        # A fused step unscales float16 gradients by itself, too late to clip them.
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def stream(self, name: str) -> Stream:
        """Random numbers of the batch at hand on this process, the same in a resumed run."""
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
                    f"learning_rate: received {self.hparams['learning_rate']}, and the loss is "
                    f"{loss.item()} at step {step}; expected a lower one, or a gradient_clip_val"
                )

    def on_train_start(self) -> None:
        """Restore the gradients of a checkpoint that was written while they accumulated."""
        for name, parameter in self.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name].to(parameter.device)
        self._gradients = {}

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Stop where Lightning 2.6 would train a batch in the wrong epoch, and step too early."""
        if (
            batch_idx >= self.trainer.num_training_batches
            and self.trainer.accumulate_grad_batches > 1
        ):
            raise UserError(
                "ckpt_path: received a checkpoint of the end of an epoch, from which Lightning "
                "cannot go on with max_steps and accumulate_grad_batches; expected max_epochs, or "
                "a checkpoint from within an epoch"
            )

    def on_train_end(self) -> None:
        """Check the last losses."""
        self.check_losses()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the kind of module, its flaw, and gradients that accumulate."""
        self.check_losses()
        checkpoint["module"] = type(self).__name__
        checkpoint["flaw"] = self.flaw
        checkpoint["from_last_batch"] = self._from_last_batch
        if self.trainer.fit_loop._should_accumulate():
            checkpoint["gradients"] = {
                name: self.trainer.strategy.reduce(parameter.grad.clone())
                for name, parameter in self.named_parameters()
                if parameter.grad is not None
            }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore these.

        Raises:
            UserError: If the checkpoint is one of another module, or a fit cannot go on exactly.
        """
        expected, received = type(self).__name__, checkpoint.get("module")
        if received != expected:
            raise UserError(
                f"ckpt_path: received a checkpoint of {received}; expected {expected}"
            )
        self.flaw = checkpoint["flaw"]
        self._gradients = checkpoint.get("gradients", {})
        if self._trainer is not None and self.trainer.state.fn == "fit":
            self._check_resumable(checkpoint)

    def _check_resumable(self, checkpoint: dict[str, Any]) -> None:
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        batches = progress["total"]
        if batches["ready"] != batches["processed"]:
            raise UserError(
                "ckpt_path: received a checkpoint of the middle of a batch, written after an "
                "error or Ctrl-C; expected one from between two batches, such as last.ckpt"
            )
        # Lightning 2.6 counts one epoch too few after a resume from the last batch of an epoch.
        if checkpoint["from_last_batch"] and self.trainer.max_steps == -1:
            raise UserError(
                "ckpt_path: received a checkpoint of a run that had gone on from the last batch of "
                "an epoch, which Lightning cannot resume again; expected an earlier checkpoint"
            )
        ended = batches["processed"] == batches["completed"]
        if checkpoint["from_last_batch"] or (progress["is_last_batch"] and not ended):
            self._from_last_batch = True
