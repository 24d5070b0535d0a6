"""Memory that is freed after a step stays with the process, for the next step."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_KEPT = {_MMAP_THRESHOLD: 2**30, _TRIM_THRESHOLD: 2**31 - 1}  # bytes; larger blocks still go back when freed
# What glibc's own adjustment, which ends with the first call of mallopt, comes to in a process that uses large blocks.
_USUAL = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26}


@contextmanager
def freed_memory_kept() -> Iterator[bool]:
    """Tell glibc not to hand freed blocks back to the system meanwhile; elsewhere nothing happens.

    A step on the CPU frees its activations and gradients and asks for as many bytes in the next one. Every page that
    went back in between costs a page fault. Afterwards the process hands back what it does not need.

    Yields:
        Whether glibc took the setting.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt, trim = library.mallopt, library.malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc, or not even a C library by this name
        yield False
        return
    try:
        yield all(mallopt(name, size) for name, size in _KEPT.items())
    finally:
        for name, size in _USUAL.items():
            mallopt(name, size)
        trim(0)
