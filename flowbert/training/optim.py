"""The optimizer of BERT's own code."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from flowbert.errors import UserError


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
        grads = [p.grad for p in params if p.grad is not None]
        means, squares = self._averages(params)
        # One call over all tensors: for the hundred small ones of a flow a Python loop costs more than the sums.
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
        denominators = torch._foreach_sqrt(squares)
        torch._foreach_add_(denominators, group["eps"])
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_addcdiv_(params, means, denominators, -group["lr"])

    def _averages(self, params: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        for p in params:
            if not self.state[p]:
                self.state[p] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        return [self.state[p]["exp_avg"] for p in params], [self.state[p]["exp_avg_sq"] for p in params]
