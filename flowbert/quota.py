"""How many processors this process may use: its affinity, and the quota of its container."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def available_processors(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Number of processors that this process may use.

    The smallest of the processors of its affinity (``taskset``, cpusets, Slurm) and the CPU quotas
    of its control group and of all groups around that (``docker --cpus``, limits of Kubernetes). A
    quota of 2.5 processors counts as 2, as in the tokenizers: a third thread would be halted.

    Args:
        cgroups: Where the control groups are mounted, of version 1 or 2.
        own: The file that names those of this process.

    Returns:
        At least 1.
    """
    counted = [*_quotas(cgroups, own), _affinity()]
    return max(1, math.floor(min(counted)))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """Processors that each group allows."""
    for line in _read(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:  # version 2
            for group in _with_parents(cgroups, name):
                quota, _, period = _read(group / "cpu.max").partition(" ")
                yield from _ratio(quota, period)
        elif "cpu" in controllers.split(","):
            # Mounted by all its controllers (cpu,cpuacct), often with a link by each of them.
            for folder in dict.fromkeys((controllers, "cpu")):
                for group in _with_parents(cgroups / folder, name):
                    quota = _read(group / "cpu.cfs_quota_us")
                    yield from _ratio(quota, _read(group / "cpu.cfs_period_us"))


def _with_parents(root: Path, name: str) -> Iterator[Path]:
    """The folder of a group, and those around it.

    In a container the name may be that on the host, while what is mounted begins at its own group:
    the root counts in any case.
    """
    parts = [part for part in name.strip("/").split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:count])


def _ratio(quota: str, period: str) -> Iterator[float]:
    """Quota by period, both in microseconds; nothing for ``max``, -1 or no such files."""
    if quota.strip().isdecimal() and period.strip().isdecimal() and int(period):
        yield int(quota) / int(period)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
