"""Exact uniformity beside the paper's formula by torch.pdist, with the memory of each.

Floor: a product of two vectors in float64 for each pair, and the vectors read once in float32. The
exponentials are not counted.
"""

import resource
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.harness import Row, Setting
from flowbert.tasks import uniformity

ROWS, DIM = 40_000, 384


def rows(setting: Setting) -> Iterator[Row]:
    """One round: the time is minutes of arithmetic, and the peak of memory never goes down."""
    count = setting.times(ROWS, 1000)
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(count, DIM, generator=generator))

    def peer() -> Tensor:
        return torch.pdist(x).pow(2).mul(-2.0).exp().mean().log()

    start = _peak()
    ours = setting.seconds({"ours": lambda: uniformity(x)}, 1)["ours"]
    middle = _peak()
    theirs = setting.seconds({"peer": peer}, 1)["peer"]
    memory = f"{_peak() - middle:.0f} MiB more; ours {middle - start:.0f}"
    yield Row(
        "uniformity",
        f"{count} x {DIM}, all pairs",
        ours,
        theirs,
        f"torch.pdist in float32 ({memory})",
        setting.floor(
            2.0 * DIM * count * (count - 1) / 2, 4.0 * count * DIM, "float64"
        ),
    )


def _peak() -> float:
    """Largest resident set of the process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
