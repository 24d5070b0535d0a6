"""Which code computed a figure: a digest of the sources and libraries that decide it."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_SHOWS = ("callbacks", "cli", "report", "training")  # parts that only show, keep or ask for figures; all others count
_ASKS = ("cli/compared.py", "cli/sources.py")  # of these two one parses the methods, the other the encoders
_LIBRARIES = ("torch", "pytorch-lightning", "transformers", "tokenizers", "numpy", "scipy")


@cache
def code_digest() -> str:
    """Digest (16 hex digits) of the sources and library versions that decide a figure; another one, other code.

    Reading the sources takes some milliseconds; comments count, because telling them apart is not worth a mistake.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_ROOT.rglob("*.py")):
        name = path.relative_to(_ROOT).as_posix()
        if name in _ASKS or name.split("/")[0] not in _SHOWS:
            digest.update(name.encode() + b"\0")
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
    for library in _LIBRARIES:
        digest.update(f"{library} {_version(library)}\n".encode())
    return digest.hexdigest()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
