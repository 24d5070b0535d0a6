"""Keeping freed memory: fewer page faults where glibc is, harmless elsewhere."""

import ctypes
import platform
import subprocess
import sys
from typing import Any

import pytest

from flowbert.encoders.cpu.allocation import freed_memory_kept

_FAULTS = """
import contextlib, resource, torch
from flowbert.encoders.cpu.allocation import freed_memory_kept
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        blocks = [torch.zeros(48 * 2**18) for _ in range(2)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with freed_memory_kept():
    faults()
    kept = faults()
print(kept, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_freed_blocks_come_back_without_page_faults_until_the_end() -> None:
    # 4 rounds of two 48 MiB blocks: with 4 KiB pages about 98,000 faults if they are mapped anew each time.
    done = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True)
    kept, after = map(int, done.stdout.split())
    assert kept < 0.2 * after


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: Any) -> Any:
        raise OSError("no such library")

    for library in (missing, lambda _name: object()):
        monkeypatch.setattr(ctypes, "CDLL", library)
        with freed_memory_kept() as taken:
            assert not taken
