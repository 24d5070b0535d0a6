"""Number of processors that this process may use: its affinity, and the quota of its container."""

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def available_processors(cgroups: Path = _CGROUPS) -> int:
    """Number of processors that this process may use, at least 1.

    The smaller of its affinity (``taskset``, cpusets, Slurm) and the CPU quota of its container
    (``docker --cpus``, limits of Kubernetes). A quota of 2.5 processors counts as 2, as in the
    tokenizers: a third thread would be halted. joblib.cpu_count reads the same files, but imports
    NumPy, whose threads are set first.

    Args:
        cgroups: Folder where the control group of the container is mounted, version 1 or 2.
    """
    counts = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        counts.append(len(os.sched_getaffinity(0)))
    period_file = cgroups / "cpu" / "cpu.cfs_period_us"
    texts = [
        _read(cgroups / "cpu.max"),
        f"{_read(cgroups / 'cpu' / 'cpu.cfs_quota_us')} {_read(period_file)}",
    ]
    for text in texts:
        numbers = text.split()  # microseconds; the quota is "max" or -1 without a limit
        if len(numbers) == 2 and all(map(str.isdecimal, numbers)):
            counts.append(int(numbers[0]) // int(numbers[1]))
    return max(1, min(counts))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
