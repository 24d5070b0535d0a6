"""Metric state that is gathered by example index, so that samples repeated by DDP count once."""

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from flowbert.errors import UserError


class IndexedMetric(Metric):
    """Metric over rows kept with their example index.

    Lightning's loaders repeat samples to give every process equally many. Rows with an index that was seen before are
    dropped, and rows are put in the order of the index, so any number of processes gives the figure of one. Without
    indices every row counts.

    Args:
        names: States that hold one entry per example.
        kwargs: Options of ``torchmetrics.Metric``.
    """

    is_differentiable = False
    full_state_update = False
    index: list[Tensor]

    def __init__(self, names: tuple[str, ...], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self._names = names
        for name in (*names, "index"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def append(self, index: Tensor | None, **rows: Tensor) -> None:
        """Keep one entry per example for every state.

        Raises:
            UserError: If the numbers of entries differ, or an index is negative.
        """
        counts = {name: len(value) for name, value in rows.items()}
        size = next(iter(counts.values()))
        if index is not None:
            counts["index"] = len(index)
            if bool((index < 0).any()):
                raise UserError(f"index holds {int(index.min())}; allowed: 0 or more")
        if len(set(counts.values())) > 1:
            raise UserError(f"numbers of entries differ: {counts}; allowed: equal numbers")
        for name, value in rows.items():
            getattr(self, name).append(value.detach())
        # -1 marks "no index": a state list must have an entry per update on every process to be gathered.
        missing = torch.full((size,), -1, dtype=torch.int64, device=next(iter(rows.values())).device)
        self.index.append(missing if index is None else index.detach().to(missing.device, torch.int64))

    def distinct(self, empty: tuple[int, ...] = (0,)) -> tuple[Tensor, ...]:
        """The states in index order, each index once.

        Args:
            empty: Shape of each state before any update.

        Raises:
            UserError: If some updates came with an index and some without.
        """
        if len(self.index) == 0:
            return tuple(torch.zeros(empty, dtype=torch.float64) for _ in self._names)
        index = dim_zero_cat(self.index)
        rows = tuple(dim_zero_cat(getattr(self, name)) for name in self._names)
        without = index < 0
        if bool(without.all()):
            return rows
        if bool(without.any()):
            raise UserError(
                f"{int(without.sum())} of {len(index)} examples came without an index; allowed: all or none"
            )
        order = torch.argsort(index, stable=True)
        ordered = index[order]
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        kept = order[first]
        return tuple(value[kept] for value in rows)
