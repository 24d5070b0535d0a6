"""Lines of text files, with errors that name the file, the line and what is allowed."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from flowbert.data.files import check_file
from flowbert.errors import UserError
from flowbert.progress import progress

_BOM = b"\xef\xbb\xbf"
_MB = 10**6
_LOOK_EVERY = 10_000  # lines


def read_lines(path: str | Path) -> list[str]:
    r"""Every line of a UTF-8 text file (``.gz`` too), blank ones included, without line ends.

    Lines end with ``\n`` or ``\r\n`` and with nothing else: a Unicode line separator inside a sentence does not cut it.
    A byte order mark is dropped.

    Raises:
        UserError: If the file is missing, empty, binary, or not UTF-8 (with the line of the first bad byte).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "sentences.txt"
        >>> _ = path.write_bytes(b"A dog runs.\r\n\r\nA cat sleeps.")
        >>> read_lines(path)
        ['A dog runs.', '', 'A cat sleeps.']
    """
    return list(iterate_lines(path))


def iterate_lines(path: str | Path) -> Iterator[str]:
    """Lines as :func:`read_lines` gives them, one at a time."""
    path = Path(path)
    check_file(path)
    number = 0
    try:
        with (
            path.open("rb") as file,
            gzip.open(file) if path.suffix.lower() == ".gz" else nullcontext(file) as lines,
            progress(path.stat().st_size // _MB, f"Reading {path.name}", "MB") as step,
        ):
            for number, raw in enumerate(lines, start=1):
                if number % _LOOK_EVERY == 0:
                    step.done = file.tell() // _MB
                yield _decode(raw.removeprefix(_BOM) if number == 1 else raw, path, number)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}:{number + 1}: not a complete gzip file ({error})") from error
    except PermissionError as error:
        raise UserError(f"{path}: the file may not be read ({error.strerror})") from error
    if number == 0:
        raise UserError(f"{path}: the file is empty")


def _decode(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw:
        raise UserError(f"{path}:{number}: binary file (a zero byte in this line); allowed: UTF-8 text")
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{number}: {not_utf8(error)}") from error


def not_utf8(error: UnicodeDecodeError) -> str:
    """Say which byte of a text is not UTF-8, and what is allowed."""
    return f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8; allowed: UTF-8 text"
