"""Which code computed a figure: a digest of the sources and libraries that decide it."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LEFT_OUT = ("callbacks", "cli", "report", "reproduction", "runs")  # packages that ask for figures or show them
_LIBRARIES = ("torch", "pytorch-lightning", "transformers", "tokenizers", "numpy", "scipy")


@cache
def code_digest() -> str:
    """Digest (16 hex digits) of the sources and library versions that decide a figure; another one, other code.

    Reading the sources takes some milliseconds; comments count, because telling them apart is not worth a mistake.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_ROOT.rglob("*.py")):
        name = path.relative_to(_ROOT)
        if name.parts[0] not in _LEFT_OUT:
            digest.update(name.as_posix().encode() + b"\0")
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()
