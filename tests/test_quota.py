"""Processors by quota: trees of control groups of both versions, as containers have them."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from flowbert import quota
from flowbert.quota import available_processors

POD = "/kubepods/pod1/container2"


def v1(folder: str, quota: int, period: int = 100_000) -> dict[str, str]:
    return {
        f"{folder}/cpu.cfs_quota_us": f"{quota}\n",
        f"{folder}/cpu.cfs_period_us": f"{period}\n",
    }


CASES: dict[str, tuple[str, Mapping[str, str], int]] = {
    "no control groups": ("", {}, 16),
    "2: docker --cpus 3": ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
    "2: no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
    "2: a part of a processor": ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
    "2: two and a half": ("0::/\n", {"cpu.max": "250000 100000\n"}, 2),
    "2: above the affinity": ("0::/\n", {"cpu.max": "6400000 100000\n"}, 16),
    "2: another period": ("0::/\n", {"cpu.max": "20000 5000\n"}, 4),
    "2: its own group": (
        f"0::{POD}\n",
        {f"{POD[1:]}/cpu.max": "200000 100000", "kubepods/cpu.max": "max 100000"},
        2,
    ),
    "2: a group around it": (
        f"0::{POD}\n",
        {f"{POD[1:]}/cpu.max": "max 100000", "kubepods/cpu.max": "500000 100000"},
        5,
    ),
    "2: the host's name of a container": (
        "0::/../../pod3\n",
        {"cpu.max": "700000 100000\n"},
        7,
    ),
    "1: no limit": ("4:cpu,cpuacct:/\n", v1("cpu,cpuacct", -1), 16),
    "1: mounted by both controllers": (
        f"5:memory:/\n4:cpu,cpuacct:{POD}\n",
        v1(f"cpu,cpuacct{POD}", 200_000),
        2,
    ),
    "1: mounted by one of them": (
        f"4:cpu,cpuacct:{POD}\n",
        v1(f"cpu{POD}", 400_000),
        4,
    ),
    "1: the host's name of a container": (f"1:cpu:{POD}\n", v1("cpu", 600_000), 6),
    "1: a group around it": (
        f"1:cpu:{POD}\n0::/\n",
        v1("cpu/kubepods", 300_000) | v1(f"cpu{POD}", -1),
        3,
    ),
    "1: a cpuset is no quota": ("3:cpuset:/\n", v1("cpu", 100_000), 16),
    "not readable": ("a line\n\n0::/\n", {"cpu.max": "\n"}, 16),
}


@pytest.mark.parametrize("case", CASES)
def test_quotas(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, files, expected = CASES[case]
    monkeypatch.setattr(quota, "_affinity", lambda: 16)
    (tmp_path / "own").write_text(own, encoding="utf-8")
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert available_processors(tmp_path / "groups", tmp_path / "own") == expected


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the system has no affinity"
)
def test_affinity() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, list(before)[:1])
    try:
        assert available_processors() == 1
    finally:
        os.sched_setaffinity(0, before)
