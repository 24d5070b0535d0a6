"""Processors by quota of a control group, as containers have them."""

import os

import pytest

from flowbert.quota import available_processors

CASES = {
    "no control groups": ("", 16),
    "docker --cpus 3": ("300000 100000\n", 3),
    "no limit": ("max 100000\n", 16),
    "a part of a processor": ("50000 100000\n", 1),
    "two and a half": ("250000 100000\n", 2),
    "not readable": ("\n", 16),
}


@pytest.mark.parametrize("case", CASES)
def test_quotas(case, tmp_path, monkeypatch):
    text, expected = CASES[case]
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    if text:
        (tmp_path / "cpu.max").write_text(text)
    assert available_processors(tmp_path) == expected


def test_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert available_processors() == 1
