"""The optimizer of BERT's own code."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from flowbert.errors import UserError

_MANY_STEPS = 2.0**31  # 0.999 to this power is 0 in every floating type, and so is every beta of use


class BertAdam(Optimizer):
    r"""Adam without bias correction and with decoupled weight decay.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \left( \frac{m}{\sqrt{v} + \epsilon} + \lambda p \right)

    Without the correction the first steps are large: the very first moves every parameter by
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
        >>> import torch
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
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise UserError(f"BertAdam: {name} {value} received, allowed: 0 or more")
        if not all(0 <= beta < 1 for beta in betas):
            raise UserError(f"BertAdam: betas {betas} received, allowed: two numbers in [0, 1)")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: Recomputes the loss and the gradients; its value is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group, [p for p in group["params"] if p.grad is not None])
        return loss

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        if not params:
            return
        beta1, beta2 = group["betas"]
        means, squares = self._averages(params)
        gradients = [_laid_out_like(p, p.grad) for p in params if p.grad is not None]
        steps = [torch.full((), _MANY_STEPS, device=params[0].device)] * len(params)
        # One pass over all numbers. It is torch's AdamW, whose bias correction is 1 after so many steps.
        torch._fused_adamw_(
            params,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def _averages(self, params: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        for p in params:
            state = self.state[p]
            for name in ("exp_avg", "exp_avg_sq"):  # one that was loaded may have other strides
                state[name] = _laid_out_like(p, state[name]) if name in state else torch.zeros_like(p)
        return [self.state[p]["exp_avg"] for p in params], [self.state[p]["exp_avg_sq"] for p in params]


def _laid_out_like(parameter: Tensor, numbers: Tensor) -> Tensor:
    """The same numbers with the parameter's strides, which the fused step takes for granted."""
    if numbers.stride() == parameter.stride():
        return numbers
    return torch.empty_like(parameter).copy_(numbers)
