"""The optimizer of BERT's own code, and learning-rate schedules by name."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

SCHEDULES = ("constant", "linear", "cosine")

_MANY_STEPS = 2.0**31  # a beta of 0.999 to this power is 0 in every floating type


class BertAdam(AdamW):
    r"""Adam without bias correction and with decoupled weight decay.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \left( \frac{m}{\sqrt{v} + \epsilon} + \lambda p \right)

    Without the correction the first step moves every parameter by
    :math:`(1 - \beta_1) / \sqrt{1 - \beta_2} \approx 3.2` learning rates.

    References:
        BERT, optimization.py (Devlin et al., 2018). https://github.com/google-research/bert

    Args:
        params: Parameters or parameter groups.
        lr: Learning rate :math:`\eta`.
        betas: Decay rates of the two averages.
        eps: :math:`\epsilon`, added outside the square root.
        weight_decay: :math:`\lambda`; multiplied by the learning rate, not part of the averages.

    Example:
        >>> p = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = BertAdam([p], lr=0.1)
        >>> (2 * p).sum().backward()
        >>> optimizer.step()
        >>> round(p.item(), 4)
        0.6838
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=True)

    def _init_group(self, group: dict[str, Any], *lists: Any) -> Any:
        """Collect the tensors of a group; the bias correction after so many steps is 1."""
        is_complex = super()._init_group(group, *lists)  # type: ignore[no-untyped-call]
        if steps := lists[-1]:
            torch._foreach_clamp_min_(steps, _MANY_STEPS)
        return is_complex


def make_schedule(
    optimizer: Optimizer, schedule: str, warmup: float, steps: int
) -> LambdaLR:
    """A linear rise of the learning rate from 0, then constant, or linear or cosine decay to 0.

    Args:
        optimizer: Its learning rate is the largest one.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps with a rising learning rate, in [0, 1).
        steps: Steps of the whole run.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> (rate,) = make_schedule(optimizer, "linear", warmup=0.5, steps=4).lr_lambdas
        >>> [rate(step) for step in range(5)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rising = math.ceil(warmup * steps)

    def rate(step: int) -> float:
        if step < rising:
            return step / rising
        if schedule == "constant":
            return 1.0
        done = min(1.0, (step - rising) / max(1, steps - rising))
        return (
            1.0 - done
            if schedule == "linear"
            else 0.5 * (1.0 + math.cos(math.pi * done))
        )

    return LambdaLR(optimizer, rate)
