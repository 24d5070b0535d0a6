"""Embeddings of all processes as one batch, with gradient."""

import torch
from torch import Tensor, distributed
from torch.autograd.function import FunctionCtx


class _Gather(torch.autograd.Function):
    """Concatenate the processes' tensors; the gradient of a process's part is summed over all processes."""

    @staticmethod
    def forward(_ctx: FunctionCtx, rows: Tensor) -> Tensor:
        gathered = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(gathered, rows.contiguous())
        return torch.cat(gathered)

    @staticmethod
    def backward(_ctx: FunctionCtx, *gradients: Tensor) -> Tensor:
        summed = gradients[0].contiguous().clone()
        distributed.all_reduce(summed)
        return summed.chunk(distributed.get_world_size())[distributed.get_rank()]


def gather_rows(rows: Tensor) -> Tensor:
    r"""Rows of all processes in the order of their ranks: ``(B, ...)`` -> ``(W B, ...)``.

    A loss L on the joined rows is computed by every process alike. Backward sums over the W processes, so a process
    has W times the gradient of L by its own rows; the averaging of parameter gradients over processes that follows
    (DistributedDataParallel) takes the W away again. A step on W processes therefore is the step of one process on the
    joined batch. Without an initialized process group the rows are returned as they are.

    Args:
        rows: Shape ``(B, ...)``, the same in all processes.

    Shapes:
        result: ``(W B, ...)``.  B: batch of a process, W: processes.

    Example:
        >>> gather_rows(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return rows
    joined: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return joined
