"""Folders that are written at once, or file by file, without what others have put there.

Each holds a list of the files that were written and of their digests. What is not on it, or was
changed since, is not ours: it is neither replaced nor removed.
"""

import ctypes
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
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
"""File with the digests that each written file may have, by its name."""

_HERE = -100  # AT_FDCWD: relative paths begin at the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)


@contextmanager
def write_folder_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` at the end.

    There is a whole folder at any time, the older or the newer one. After an error nothing is left,
    and an older one stays.

    Raises:
        UserError: If there is a folder that was not written here, or holds anything else; before
            anything is written.
    """
    path = follow_link(path)
    _check_own(path)
    with _temporary(path) as temporary:
        yield temporary
        _write_manifest(temporary, _digests(temporary))
        for file in temporary.rglob("*"):
            flush(file)
        _check_own(path)  # it may have got other files meanwhile
        if path.is_dir() and any(path.iterdir()):
            _exchange(temporary, path)
        else:
            os.replace(temporary, path)
    flush(path.parent)


@contextmanager
def write_files_atomically(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder whose files move into ``folder`` at the end, one after another.

    Files of an earlier call that are not written again are removed; all others stay.

    Raises:
        UserError: If a file would replace one that was not written here, or was changed since.
    """
    folder = follow_link(folder)
    with _temporary(folder) as temporary:
        yield temporary
        written = _digests(temporary)
        own = _own_files(folder)
        for name in written:
            if os.path.lexists(folder / name) and name not in own:
                raise UserError(
                    f"{folder / name}: exists, and was not written here, or was changed since; "
                    "expected it elsewhere"
                )
        folder.mkdir(exist_ok=True)
        # A call that comes after a kill in between knows the older files and the newer ones.
        _write_manifest(folder, own, written)
        for name in written:
            flush(temporary / name)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary / name, folder / name)
        for name in own.keys() - written.keys():
            (folder / name).unlink()
        _write_manifest(folder, written)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A folder beside a path, which is removed at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _names(folder: Path) -> list[str]:
    """Names of all files in a folder and below."""
    files = (file for file in sorted(folder.rglob("*")) if not file.is_dir())
    names = [file.relative_to(folder).as_posix() for file in files]
    return [name for name in names if name != MANIFEST]


def _digests(folder: Path) -> dict[str, str]:
    return {name: digest_file(folder / name) for name in _names(folder)}


def _write_manifest(folder: Path, *digests: Mapping[str, str]) -> None:
    """Write the digests that each file may have."""
    names = sorted(set().union(*digests))
    files = {name: [each[name] for each in digests if name in each] for name in names}
    write_json(folder / MANIFEST, {"files": files})


def _own_files(folder: Path) -> dict[str, str]:
    """Files of a folder that were written here and are as they were: digests by name."""
    if not (folder / MANIFEST).is_file():
        return {}
    own = {}
    for name, known in read_json(folder / MANIFEST, {"files": dict})["files"].items():
        file = inside(folder, name)
        if not isinstance(known, list) or not file.is_file():
            continue
        present = digest_file(file)
        if present in known:
            own[name] = present
    return own


def _check_own(path: Path) -> None:
    """Refuse a folder with anything that was not written here."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file; expected a new folder")
    own = _own_files(path)
    others = [name for name in _names(path) if name not in own]
    if others:
        raise UserError(
            f"{path}: holds {others[0]}, which was not written here, or was changed since; "
            "expected a new folder"
        )


def _exchange(first: Path, second: Path) -> None:
    """Give each of two folders the place of the other, in one step.

    Raises:
        UserError: If the system cannot.

    References:
        https://man7.org/linux/man-pages/man2/rename.2.html
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    paths = os.fsencode(first), os.fsencode(second)
    if rename is None or rename(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) != 0:
        raise UserError(
            f"{second}: exists, and cannot be replaced in one step on this system; expected a new "
            "folder"
        )
