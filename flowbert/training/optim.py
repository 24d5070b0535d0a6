"""The optimizer of BERT's official code, and learning-rate schedules by name."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from flowbert.options import SCHEDULES


def _constant(_step: int, _steps: float) -> float:
    return 1.0


def _linear(step: int, steps: float) -> float:
    return max(0.0, (steps - step) / max(1, steps))


def _cosine(step: int, steps: float) -> float:
    return (1 + math.cos(math.pi * (step / max(1, steps)))) / 2


SHARES_OF_PEAK = dict(zip(SCHEDULES, (_constant, _linear, _cosine), strict=True))
"""Learning rate as a share of its peak, by step and number of steps after the warm-up."""

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
        weight_decay: :math:`\lambda`, multiplied by the learning rate and not part of the averages.

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
        """Collect the tensors of a group, with a step count for which the bias correction is 1."""
        is_complex = super()._init_group(group, *lists)  # type: ignore[no-untyped-call]
        if steps := lists[-1]:
            torch._foreach_clamp_min_(steps, _MANY_STEPS)
        return is_complex
