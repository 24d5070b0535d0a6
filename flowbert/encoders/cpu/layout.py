"""Weights of dense layers in the order in which a CPU multiplies them: laid out once, not for every product."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from flowbert.encoders.cpu.parallel import model_type

_LEAST = 8  # batches; the layout takes a fifth of the time of one and makes each by a tenth faster
# Networks that replace modules or weights while they compute, which would not reach those laid out.
_CHANGING = ("big_bird", "funnel", "recurrent_gemma", "rwkv")


@contextmanager
def weights_laid_out(network: nn.Module, batches: int, rows: int) -> Iterator[int]:
    """Let the dense layers of a frozen network multiply faster meanwhile, where that is possible and worth it.

    oneDNN, with which torch multiplies on a CPU, wants weights in an order of its own and brings them into it at each
    product. Here they are there a second time, in that order. Vectors move by the rounding of float32 sums, as they do
    from one batch size to another.

    Args:
        network: The network, without gradients.
        batches: How many batches will be computed.
        rows: Rows of a product, about.

    Yields:
        How many layers it is done for; 0 for few batches, elsewhere than on a CPU, if torch lacks oneDNN, or for a
        network that changes itself.

    Example:
        >>> network, x = nn.Sequential(nn.Linear(3, 2)), torch.ones(1, 3)
        >>> with torch.no_grad(), weights_laid_out(network, 1000, 1):
        ...     y = network(x)
        >>> torch.allclose(y, network(x))
        True
    """
    worth = batches >= _LEAST and model_type(network) not in _CHANGING
    layers = [module for module in network.modules() if type(module) is nn.Linear] if worth else []
    layers = [layer for layer in layers if _can_be_laid_out(layer)]
    try:
        for layer in layers:
            weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), rows)
            bias = None if layer.bias is None else layer.bias.detach()
            layer.forward = partial(_product, weight, bias)  # type: ignore[method-assign]
        yield len(layers)
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _can_be_laid_out(layer: nn.Linear) -> bool:
    """Whether oneDNN has this layer's type on this processor, and nobody else has replaced how it multiplies."""
    operators, dtype = torch.ops.mkldnn, layer.weight.dtype
    if layer.weight.device.type != "cpu" or "forward" in vars(layer):
        return False
    if not hasattr(operators, "_reorder_linear_weight"):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and bool(operators._is_mkldnn_bf16_supported()))


def _product(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product
