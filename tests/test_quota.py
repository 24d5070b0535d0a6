"""Processors by quota: control groups of both versions, as containers have them."""

import os

import pytest

from flowbert.quota import available_processors

CASES = {
    "no control groups": ({}, 16),
    "2: docker --cpus 3": ({"cpu.max": "300000 100000\n"}, 3),
    "2: no limit": ({"cpu.max": "max 100000\n"}, 16),
    "2: a part of a processor": ({"cpu.max": "50000 100000\n"}, 1),
    "2: two and a half": ({"cpu.max": "250000 100000\n"}, 2),
    "2: above the affinity": ({"cpu.max": "6400000 100000\n"}, 16),
    "1: two": ({"cpu.cfs_quota_us": "200000\n", "cpu.cfs_period_us": "100000\n"}, 2),
    "1: no limit": ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 16),
    "not readable": ({"cpu.max": "\n"}, 16),
}


@pytest.mark.parametrize("case", CASES)
def test_quotas(case, tmp_path, monkeypatch):
    files, expected = CASES[case]
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        folder = tmp_path if case.startswith("2") else tmp_path / "cpu"
        (folder / name).write_text(text, encoding="utf-8")
    assert available_processors(tmp_path) == expected


def test_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert available_processors() == 1
