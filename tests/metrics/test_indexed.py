"""The torchmetrics classes: batches, repeated samples, several processes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from flowbert.errors import FlowbertWarning, UserError
from flowbert.metrics import Alignment, Spearman, Uniformity
from flowbert.metrics.functional import alignment, spearman, uniformity


def gathered(parts: list[Any]) -> None:
    """Make ``parts[0]`` compute over all parts, as a gather over that many processes does."""
    states = [{name: torch.cat(getattr(part, name)) for name in (*part._names, "index")} for part in parts]
    queue = [[state[name] for state in states] for name in (*parts[0]._names, "index")]
    parts[0].dist_sync_fn = lambda _value, group: queue.pop(0) if group is None else []
    parts[0].distributed_available_fn = lambda: True


def values() -> tuple[Tensor, Tensor]:
    x, y = torch.randn(2, 21, 4, generator=torch.Generator().manual_seed(0))
    return x, y


def test_two_processes_with_a_repeated_sample_give_what_one_gives() -> None:
    x, y = values()
    a, b = x[:, 0], y[:, 0].round()
    shares = [torch.arange(0, 21, 2), torch.tensor([*range(1, 21, 2), 0])]
    spearmans, alignments, uniformities = (
        [Spearman(), Spearman()],
        [Alignment(), Alignment()],
        [Uniformity(), Uniformity()],
    )
    for rank, share in enumerate(shares):
        spearmans[rank].update(a[share], b[share], share)
        alignments[rank].update(x[share], y[share], share)
        uniformities[rank].update(x[share], share)
    for parts in (spearmans, alignments, uniformities):
        gathered(parts)
    assert spearmans[0].compute().item() == spearman(a, b)
    assert alignments[0].compute().item() == alignment(x, y)
    assert uniformities[0].compute().item() == uniformity(x)


def test_batches_equal_the_pure_function_and_reset_forgets() -> None:
    x, y = values()
    metric = Alignment()
    for start in range(0, 21, 8):
        metric.update(x[start : start + 8], y[start : start + 8])
    assert metric.compute().item() == pytest.approx(alignment(x, y), rel=1e-12)
    metric.reset()
    with pytest.warns(FlowbertWarning, match="no positive pairs"), pytest.warns(UserWarning, match="before the"):
        assert math.isnan(metric.compute().item())


def test_mixed_or_bad_indices_are_refused() -> None:
    metric = Spearman()
    metric.update(torch.zeros(2), torch.zeros(2), torch.arange(2))
    metric.update(torch.zeros(1), torch.zeros(1))
    with pytest.raises(UserError, match="1 of 3 examples came without an index"):
        metric.compute()
    with pytest.raises(UserError, match="index holds -2"):
        metric.update(torch.zeros(1), torch.zeros(1), torch.tensor([-2]))
    with pytest.raises(UserError, match="numbers of entries differ"):
        metric.update(torch.zeros(1), torch.zeros(2))
