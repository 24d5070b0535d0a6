"""Callbacks: the closed-form baseline, a log of each step, bars, threads on a CPU."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from flowbert.progress import bar
from flowbert.threads import threads_for


def data_in_use(trainer: Trainer) -> Any:
    """The data module of the running call; None if it was given loaders.

    ``trainer.datamodule`` may be that of an earlier call.
    """
    selector: Any = trainer._data_connector._datahook_selector
    return selector.datamodule


class WhiteningBaseline(Callback):
    """A closed-form map of the same rows, to compare the trained method with.

    A map that is not fitted is fitted on ``rows`` of the data module before the training, the
    validation or the test. Checkpoints contain it.

    Args:
        map: An affine map, such as :class:`flowbert.maps.Whitening`, or a chain of them.
        pairs: Labelled pairs for a map that learns from them: two matrices of vectors ``(P, D)``,
            and scores ``(P,)``.

    Example:
        >>> from flowbert.maps import Whitening
        >>> WhiteningBaseline(Whitening(shrinkage=0.1)).name
        'whitening:shrinkage=0.1'
    """

    def __init__(self, map: Any, pairs: Any = None) -> None:
        self.map = map
        self.pairs = pairs

    @property
    def name(self) -> str:
        """Name in tables: the text of the map."""
        text: str = self.map.text
        return text

    @property
    def state_key(self) -> str:
        """Key in a checkpoint, one for each setting of the map."""
        return self._generate_state_key(name=self.name)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit the map on the rows of the data module, unless it was fitted or loaded before."""
        if not self.map.is_fitted:
            self.map.fit(data_in_use(trainer).rows, pairs=self.pairs)

    on_validation_start = on_test_start = on_fit_start

    def state_dict(self) -> dict[str, Any]:
        """The state of the fitted map."""
        return {"map": self.map.get_state()} if self.map.is_fitted else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the fitted map."""
        self.map.set_state(state_dict["map"])


class StepLog(Callback):
    """Log ``step/learning_rate`` and ``step/gradient_norm`` (L2, before clipping)."""

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Log both; nothing is computed in steps that are not logged."""
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every == 0 or (trainer.global_step + 1) % every:
            return
        groups = optimizer.param_groups
        parameters = [p for group in groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        rate = groups[0]["lr"]
        pl_module.log_dict({"step/learning_rate": rate, "step/gradient_norm": norm})


class EpochBar(Callback):
    """Show the progress of each epoch, and of a prediction, by :func:`flowbert.progress.bar`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._advance: Callable[[int], None] = lambda _: None

    def _open(self, trainer: Trainer, step: str, batches: float) -> None:
        if trainer.is_global_zero and math.isfinite(batches):
            self._advance = self._stack.enter_context(bar(step, int(batches)))

    def on_train_epoch_start(
        self, trainer: Trainer, pl_module: LightningModule
    ) -> None:
        """Show the number of the epoch."""
        step = f"epoch {trainer.current_epoch + 1}"
        if (epochs := trainer.max_epochs) not in (None, -1):
            step += f" of {epochs}"
        self._open(trainer, step, trainer.num_training_batches)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the batches of all loaders as one step."""
        self._open(trainer, "predicting", sum(trainer.num_predict_batches))

    def on_train_batch_end(self, *_: Any) -> None:
        """Count a batch."""
        self._advance(1)

    on_predict_batch_end = on_train_batch_end  # type: ignore[assignment]

    def on_train_epoch_end(self, *_: Any) -> None:
        """Remove the bar."""
        self._stack.close()

    on_predict_end = on_exception = on_train_epoch_end  # type: ignore[assignment]


class TrainingThreads(Callback):
    """Train on a CPU with the threads of :func:`flowbert.threads.choose_threads`.

    The number depends on ``numbers_at_once`` of the module.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the number of threads."""
        if pl_module.device.type == "cpu":
            numbers: Any = pl_module.numbers_at_once
            self._stack.enter_context(threads_for(numbers))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the number of threads."""
        self._stack.close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Restore the number of threads after an error or Ctrl-C."""
        self._stack.close()
