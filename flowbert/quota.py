"""Number of processors that this process may use, by affinity and container quota."""

import os
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def available_processors(cgroups: Path = _CGROUPS) -> int:
    """Number of processors that this process may use, at least 1.

    The smaller of its affinity (``taskset``, cpusets, Slurm) and the CPU quota of its container
    (``docker --cpus``, limits of Kubernetes). A quota of 2.5 processors counts as 2, as in the
    tokenizers: a third thread would be halted. joblib.cpu_count reads the same files, but imports
    NumPy, whose threads must be set before its import.

    Args:
        cgroups: Folder where the control group of the container is mounted, version 2.
    """
    counts = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        counts.append(len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):  # no group, or "max": no limit
        quota, period = map(int, (cgroups / "cpu.max").read_text().split())
        counts.append(quota // period)  # of microseconds
    return max(1, min(counts))
