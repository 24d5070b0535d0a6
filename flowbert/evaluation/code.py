"""Which code computed a figure: a digest of the sources and libraries that decide it."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_DECIDES = (
    "calibration",
    "data",
    "encoders",
    "evaluation",
    "flows",
    "losses",
    "metrics",
    "modules",
    "cli/compared.py",
    "cli/sources.py",
)
_LIBRARIES = ("torch", "pytorch-lightning", "transformers", "tokenizers", "numpy", "scipy")


@cache
def code_digest() -> str:
    """Digest (16 hex digits) of the sources and library versions that decide a figure; another one, other code.

    Reading the sources takes some milliseconds; comments count, because telling them apart is not worth a mistake.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in _DECIDES:
        place = _ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0")
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
    for library in _LIBRARIES:
        digest.update(f"{library} {_version(library)}\n".encode())
    return digest.hexdigest()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
