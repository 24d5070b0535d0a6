"""Files and folders that appear under their name only when they are complete and on disk."""

import ctypes
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux's renameat2


@contextmanager
def written_atomically(path: str | Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; flush it and rename it to ``path``, or remove it after an error.

    Missing folders are made. The file gets the permissions of any new file (the umask decides).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with written_atomically(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> [file.name for file in folder.iterdir()]
        ['a.txt']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last: numpy and others append their own to a name without it.
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    temporary.touch(exist_ok=False)
    mode = temporary.stat().st_mode
    try:
        yield temporary
        _finish(temporary, mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


@contextmanager
def folder_written_atomically(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder beside ``path`` to fill; flush it and let it take the place of ``path``.

    At every moment ``path`` is the whole old folder (if there was one) or the whole new one: the two are exchanged.
    Where the system cannot exchange two folders, an interruption between two renames leaves the old one as
    ``<name>.old``. After an error the old one stays and the temporary one is removed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "model"
        >>> for text in ("old", "new"):
        ...     with folder_written_atomically(folder) as temporary:
        ...         _ = (temporary / "a.txt").write_text(text)
        >>> (folder / "a.txt").read_text(), len(list(folder.parent.iterdir()))
        ('new', 1)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    mode = temporary.stat().st_mode
    try:
        yield temporary
        for folder, _, files in os.walk(temporary):
            for file in files:
                _finish(Path(folder) / file, mode & 0o666)
            os.chmod(folder, mode)
            _flush_folder(Path(folder))
        if path.is_dir():
            _exchange(temporary, path)
        else:
            os.replace(temporary, path)
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders, in one step where the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if rename and not rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE):
        return
    aside = old.with_name(f"{old.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(old, aside)
    os.replace(new, old)
    os.replace(aside, new)  # where the caller removes it


def _finish(path: Path, mode: int) -> None:
    path.chmod(mode)  # some writers, safetensors for one, put a private file in place of the one they were given
    _flush(path)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_folder(path: Path) -> None:
    """Flush the names in a folder, where the file system can."""
    with suppress(OSError):
        _flush(path)
