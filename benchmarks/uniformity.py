"""Exact uniformity beside the paper's formula by torch.pdist, with the memory that each takes."""

import math
import resource

import torch

from benchmarks.harness import Product, Row, Setting
from flowbert.metrics import uniformity

ROWS, DIM, FACTOR = 40_000, 384, 2.0


def rows(setting: Setting) -> list[Row]:
    """One round: the time is minutes of arithmetic, and the peak of memory never goes down."""
    count = setting.times(ROWS, 1000)
    x = torch.nn.functional.normalize(torch.randn(count, DIM, generator=torch.Generator().manual_seed(0)))
    product = Product(1024, DIM, 1024, torch.float64)
    found: dict[str, float] = {}

    def ours() -> None:
        found["ours"] = uniformity(x, FACTOR)

    def peer() -> None:
        found["peer"] = float(torch.pdist(x).pow(2).mul(-FACTOR).exp().mean().log())

    seconds: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for name, way in {"ours": ours, "peer": peer}.items():
        before = _peak()
        seconds |= setting.seconds({name: way}, 1)
        peaks[name] = _peak() - before
    rate = product.operations / setting.seconds({"product": product}, 200)["product"]
    if not math.isclose(found["ours"], found["peer"], abs_tol=1e-4):
        raise RuntimeError(f"the two differ: {found}")
    operations = count * (count - 1.0) * DIM
    return [
        Row(
            name="uniformity",
            setting=f"{count} x {DIM}, all pairs",
            ours=seconds["ours"],
            peer=seconds["peer"],
            peer_name=f"torch.pdist in float32 ({peaks['peer']:.0f} MiB more; ours {peaks['ours']:.0f})",
            floor=operations / rate,
            floor_is=f"{operations / 1e9:.0f} GFLOP in float64",
            aim="faster, memory flat",
            more={"peak_mib": peaks, "values": found},
        )
    ]


def _peak() -> float:
    """Largest resident set of the process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
