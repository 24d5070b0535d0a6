"""What a score depends on beside its settings: code, versions, device, threads."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import flowbert
from flowbert.io import digest_stream
from flowbert.threads import choose_threads

_LIBRARIES = (
    "torch",
    "pytorch-lightning",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
)


@cache
def source_digest() -> str:
    """Digest of the package's own source files, as they were when this process first asked."""
    root = Path(flowbert.__file__).parent
    files = sorted(root.rglob("*.py"))
    parts = ([str(file.relative_to(root)), file.read_bytes()] for file in files)
    return digest_stream(part for pair in parts for part in pair)


def environment(device: str | torch.device) -> dict[str, Any]:
    """Versions, source, device and threads, by name."""
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    return {
        "versions": {
            "flowbert": flowbert.__version__,
            "python": platform.python_version(),
            **{library: version(library) for library in _LIBRARIES},
        },
        "source": source_digest(),
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "platform": platform.platform(),
        "threads": choose_threads(),
    }


def changed_entries(saved: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Names of what differs between two environments, with single versions by library.

    Example:
        >>> changed_entries({"versions": {"torch": "2"}}, {"versions": {"torch": "3"}})
        ['torch']
    """
    names = []
    for name in dict.fromkeys([*saved, *here]):
        one, other = saved.get(name), here.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            names += changed_entries(one, other)
        elif one != other:
            names.append(name)
    return names
