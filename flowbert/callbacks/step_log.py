"""How each step went: learning rate and gradient norm, as often as the Trainer logs."""

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.optim import Optimizer


class StepLog(Callback):
    """Log ``step/learning_rate`` and ``step/gradient_norm``, the L2 norm before any clipping, at every logged step."""

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Log both; nothing is computed at other steps."""
        every: Any = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if not every or (trainer.global_step + 1) % every:  # 0: never
            return
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        pl_module.log_dict({"step/learning_rate": optimizer.param_groups[0]["lr"], "step/gradient_norm": norm})
