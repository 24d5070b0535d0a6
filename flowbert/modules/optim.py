"""The optimizer of BERT's own code, and learning-rate schedules by name."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from flowbert.errors import UserError, choices

SCHEDULES = ("constant", "linear", "cosine")

_MANY_STEPS = 2.0**31  # a beta of 0.999 to this power is 0 in every floating type


class BertAdam(Optimizer):
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

    Raises:
        UserError: If an argument is out of its range.

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
        options = {"lr": lr, "eps": eps, "weight_decay": weight_decay}
        for name, value in options.items():
            if not value >= 0:
                raise UserError(f"{name}: received {value}; expected at least 0")
        if not all(0 <= beta < 1 for beta in betas):
            raise UserError(f"betas: received {betas}; expected two numbers in [0, 1)")
        super().__init__(params, options | {"betas": betas})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: Computes the loss and the gradients anew; its value is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._update(group, params)
        return loss

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        gradients: list[Tensor] = []
        means: list[Tensor] = []
        squares: list[Tensor] = []
        for p in params:
            gradients.append(_with_strides_of(p, p.grad))
            state = self.state[p]
            for name, averages in (("exp_avg", means), ("exp_avg_sq", squares)):
                state[name] = _with_strides_of(p, state.get(name))
                averages.append(state[name])
        beta1, beta2 = group["betas"]
        # One pass over all numbers: torch's AdamW, whose bias correction is 1 after many steps.
        torch._fused_adamw_(
            params,
            gradients,
            means,
            squares,
            [],
            [torch.full((), _MANY_STEPS, device=params[0].device)] * len(params),
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


def _with_strides_of(parameter: Tensor, numbers: Tensor | None) -> Tensor:
    """The numbers (None: zeros) with the parameter's strides, which the fused step requires."""
    if numbers is None:
        return torch.zeros_like(parameter)
    if numbers.stride() == parameter.stride():
        return numbers
    return torch.empty_like(parameter).copy_(numbers)


def check_schedule(schedule: str) -> None:
    """Raise a UserError for an unknown schedule."""
    if schedule not in SCHEDULES:
        raise UserError(
            f"schedule: received {schedule!r}; {choices(SCHEDULES, schedule)}"
        )


def make_schedule(
    optimizer: Optimizer, schedule: str, warmup: float, steps: int
) -> LambdaLR:
    """A linear rise of the learning rate from 0, then constant, or linear or cosine decay to 0.

    Args:
        optimizer: Its learning rate is the largest one.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps with a rising learning rate, in [0, 1).
        steps: Steps of the whole run.

    Raises:
        UserError: If the schedule is unknown.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> (rate,) = make_schedule(optimizer, "linear", warmup=0.5, steps=4).lr_lambdas
        >>> [rate(step) for step in range(5)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    check_schedule(schedule)
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
