"""Folders that are written as a whole, without removing what others have put there."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowbert.errors import UserError
from flowbert.io import (
    digest_file,
    flush,
    follow_link,
    inside,
    read_json,
    write_json,
)

MANIFEST = ".flowbert"
"""File with the digest of each written file by its name."""


@contextmanager
def write_folder_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` at the end.

    It replaces a folder that was written here. After an error nothing is left, and an older folder
    stays. A kill between the two renames leaves the older one under a hidden name, next to it.

    Raises:
        UserError: If the folder holds a file that was not written here, or was changed since.
    """
    path = follow_link(path)
    _check_own(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    newer, older = temporary / "newer", temporary / "older"
    newer.mkdir(parents=True)
    try:
        yield newer
        digests = {name: digest_file(newer / name) for name in _names(newer)}
        write_json(newer / MANIFEST, {"files": digests})
        for file in newer.rglob("*"):
            flush(file)
        _check_own(path)  # it may have got other files meanwhile
        if path.exists():
            os.rename(path, older)
        os.replace(newer, path)
    finally:
        if older.exists() and not path.exists():
            os.rename(older, path)
        shutil.rmtree(temporary, ignore_errors=True)
    flush(path.parent)


def _names(folder: Path) -> list[str]:
    """Names of all files in a folder and below."""
    files = (file for file in sorted(folder.rglob("*")) if not file.is_dir())
    names = [file.relative_to(folder).as_posix() for file in files]
    return [name for name in names if name != MANIFEST]


def _check_own(path: Path) -> None:
    """Raise a UserError for a folder with files that were not written here."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file; expected a new folder")
    manifest, digests = path / MANIFEST, {}
    if manifest.is_file():
        digests = read_json(manifest, {"files": dict})["files"]
    for name in _names(path):
        file = inside(path, name)
        if not file.is_file() or digests.get(name) != digest_file(file):
            raise UserError(
                f"{path}: holds {name}, which was not written here, or was changed since; "
                "expected a new folder"
            )
