"""Base class of all LightningModules: optimizer, random numbers, checks, checkpoints."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from flowbert.errors import UserError, check_choice
from flowbert.io import without_numpy
from flowbert.numbers import Seed, check_limits
from flowbert.options import SCHEDULES
from flowbert.registry import imports_refused
from flowbert.seeding import Stream
from flowbert.training.callbacks import TrainingThreads
from flowbert.training.optim import SHARES_OF_PEAK
from flowbert.training.resume import ExactResume, count_steps

_CHECK_EVERY = 50  # losses: reading one waits for an accelerator


class MethodModule(LightningModule):
    """Base of the modules.

    The training uses the attributes of the module; the hyper-parameters are saved copies, to which
    a subclass may add others by ``save_hyperparameters``.

    Args:
        options: Options of the module, with ``learning_rate``, ``weight_decay``, ``schedule`` and
            ``warmup``.
        seed: Seed of all random numbers.

    Attributes:
        invalid_reason: Why the trained parameters are undefined, in one line, or None.
        fitted_on: Identity of the encoder and digest of the corpus, stored in checkpoints.

    Raises:
        UserError: If an argument is outside of its limits.
    """

    def __init__(self, options: Any, seed: Seed) -> None:
        super().__init__()
        check_limits(MethodModule, {"seed": seed})
        check_limits(type(options), vars(options))
        check_choice("schedule", options.schedule, SCHEDULES)
        # Lightning reads them from the frames of the constructors.
        self.save_hyperparameters(ignore=["encoder", "options"])
        self.learning_rate: float = options.learning_rate
        self.weight_decay: float = options.weight_decay
        self.schedule: str = options.schedule
        self.warmup: float = options.warmup
        self.seed = seed
        self.invalid_reason: str | None = None
        self.fitted_on: dict[str, Any] = {}
        self._loss = torch.zeros(())

    @classmethod
    def load_from_checkpoint(cls, *args: Any, **options: Any) -> Any:
        """Load a module, as Lightning does; a file imports no code."""
        with imports_refused():
            return super().load_from_checkpoint(*args, **options)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers without whole numbers: WeightAveraging would average and round indices."""
        return (x for x in super().buffers(recurse) if x.is_floating_point())

    def mapped(self, embeddings: Tensor) -> dict[str, Tensor]:
        """Additional embeddings to measure, by their names in metrics.

        Args:
            embeddings: Embeddings of sentences by the present weights, ``(N, D)``.
        """
        return {}

    def configure_callbacks(self) -> list[Callback]:
        """Callbacks for the number of threads and for exact resumes."""
        return [TrainingThreads(), ExactResume()]

    @property
    def numbers_at_once(self) -> float:
        """Number of values in a typical tensor of a training step; it sets the number of threads.

        An encoder, with hidden states of all tokens of a batch, returns infinity.
        """
        return math.inf

    def scheduled(self, optimizer: Optimizer) -> OptimizerLRScheduler:
        """An optimizer with a schedule that changes the learning rate in every step."""
        steps, schedule = count_steps(self.trainer), self.schedule_over_length
        if math.isinf(steps) and schedule:
            raise UserError(
                f"received {schedule} for a training without an end; "
                "expected max_steps or max_epochs, or a constant schedule without warm-up",
                argument="model.schedule",
            )
        self._scheduled = steps, self.learning_rate
        scheduler = LambdaLR(optimizer, self._share_of_peak)
        # A fused step unscales float16 gradients by itself, too late to clip them.
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _share_of_peak(self, step: int) -> float:
        """Learning rate of a step, as a share of the peak."""
        steps, _ = self._scheduled
        rising = math.ceil(self.warmup * steps) if self.warmup else 0
        if step < rising:
            return step / rising
        return SHARES_OF_PEAK[self.schedule](step - rising, steps - rising)

    def on_train_start(self) -> None:
        """Apply the batch size and learning rate that Lightning's finders have set."""
        _, before = self._scheduled
        self._scheduled = count_steps(self.trainer), self.learning_rate
        if self.learning_rate == before:
            return
        scheduler: Any = self.lr_schedulers()
        scheduler.base_lrs = [
            rate * self.learning_rate / before for rate in scheduler.base_lrs
        ]
        share = self._share_of_peak(self.global_step)
        for group, rate in zip(
            scheduler.optimizer.param_groups, scheduler.base_lrs, strict=True
        ):
            group["lr"] = share * rate

    @property
    def schedule_over_length(self) -> str:
        """The schedule in words, if a step's learning rate depends on the number of all steps."""
        schedule, warmup = self.schedule, self.warmup
        if schedule == "constant" and not warmup:
            return ""
        return f"{schedule!r}{f' with warm-up {warmup}' if warmup else ''}"

    def stream(self, name: str) -> Stream:
        """Random numbers of the current batch on this process, the same in a resumed run."""
        batch = self.trainer.fit_loop.total_batch_idx
        return Stream(self.seed, name, batch=batch, rank=self.global_rank)

    def check_loss(self, loss: Tensor) -> None:
        """Raise an error for a loss that is not finite; on an accelerator, some steps later."""
        self._loss = loss.detach()
        if self.device.type == "cpu" or self.global_step % _CHECK_EVERY == 0:
            self.check_last_loss()

    def check_last_loss(self) -> None:
        """Check the last loss, which is not finite if the weights are not.

        Raises:
            UserError: With the step, if the loss is not finite.
        """
        if not torch.isfinite(self._loss):
            raise UserError(
                f"received {self.learning_rate}, and the loss is {self._loss.item()} "
                f"at step {self.global_step}; expected a lower one, or a gradient_clip_val",
                argument="learning_rate",
            )

    def on_train_end(self) -> None:
        """Check the last loss."""
        self.check_last_loss()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add :attr:`fitted_on` and :attr:`invalid_reason`."""
        self.check_last_loss()
        checkpoint["module"] = type(self).__name__
        checkpoint["fitted_on"] = self.fitted_on
        checkpoint["invalid_reason"] = self.invalid_reason
        checkpoint.update(without_numpy(checkpoint))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore them."""
        self.invalid_reason = checkpoint["invalid_reason"]
