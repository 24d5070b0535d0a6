"""The switch for fast training on a CPU, as a callback that turns it off however a training ends."""

from contextlib import ExitStack
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from flowbert.encoders.cpu.training import fast_training


class FastTraining(Callback):
    """Train inside of :func:`flowbert.encoders.cpu.training.fast_training`, also when Ctrl-C or an error ends it."""

    def __init__(self) -> None:
        self._switch = ExitStack()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Turn it on; a frozen encoder stays as it is, only freed memory is kept."""
        module: Any = pl_module
        if pl_module.device.type == "cpu":
            self._switch.enter_context(fast_training(None if module.frozen_encoder else module.encoder))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Turn it off."""
        self._switch.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Turn it off."""
        self._switch.close()
