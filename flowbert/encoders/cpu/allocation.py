"""Memory that is freed after a step stays with the process, for the next step."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_BLOCK = 2**30  # bytes: larger blocks still go back to the system when freed
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc not to hand freed blocks back to the system after every training step; elsewhere nothing happens.

    A step on the CPU frees its activations and gradients and asks for as many bytes in the next one. Every page that
    went back in between costs a page fault. The setting is the whole process's, and lasts.

    Returns:
        Whether glibc took the setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc, or not even a C library by this name
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _BLOCK)) and bool(mallopt(_TRIM_THRESHOLD, _MOST))
