"""Lists of names and files, sentences in memory, lines of text files, words of a sentence."""

import glob
import gzip
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from flowbert.errors import UserError, nearest


def user_path(path: str | Path) -> Path:
    """A path, in which ``~`` is the home folder."""
    return Path(os.path.expanduser(path))


def as_list(value: str | Sequence[str] | None, argument: str) -> list[str]:
    """Make a list of a list or a text ``a,b`` or ``[a, b]``, without repetitions; [] for None.

    Args:
        value: The text or list. An item of a list may have commas.
        argument: Name of the argument, for the message.

    Raises:
        UserError: If the list is empty.

    Example:
        >>> as_list("raw, zca", "methods"), as_list("['raw', zca]", "methods")
        (['raw', 'zca'], ['raw', 'zca'])
        >>> as_list(["a,b"], "methods")
        ['a,b']
    """
    if value is None:
        return []
    items = value
    if isinstance(value, str):
        text = value[1:-1] if value[:1] + value[-1:] == "[]" else value
        items = [item.strip(" '\"") for item in text.split(",")]
    names = list(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not names:
        raise UserError(argument=argument, received=value, expected="one name or more")
    return names


def as_sentences(value: Any, argument: str = "sentences") -> list[str]:
    """Sentences as a list; one string is one sentence.

    Args:
        value: A string, or a list, tuple, array or Series of strings.
        argument: Name of the argument, for the message.

    Raises:
        UserError: If it is anything else, or an item is not text.

    Example:
        >>> as_sentences("A dog runs."), as_sentences(("a", "b"))
        (['A dog runs.'], ['a', 'b'])
    """
    if isinstance(value, str):
        value = [value]
    unordered = isinstance(value, Mapping | Set | bytes | bytearray)
    # A data frame is iterated by the names of its columns.
    if unordered or hasattr(value, "columns") or not hasattr(value, "__iter__"):
        received = type(value).__name__
        raise UserError(
            f"received {received}; expected a list of strings", argument=argument
        )
    sentences: list[str] = []
    for number, text in enumerate(value, start=1):
        if not isinstance(text, str):
            shown = f"{type(text).__name__} {str(text)[:40]!r}"
            raise UserError(
                f"received {shown} as sentence {number}; expected text",
                argument=argument,
            )
        # Half a character, such as "\ud800" of JSON, becomes a question mark.
        sentences.append(text.encode(errors="replace").decode())
    return sentences


def check_file(path: Path) -> None:
    """Check that a path is a file, or a pipe.

    Raises:
        UserError: If it is missing (with the nearest names in its folder) or a folder.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a folder; expected a file")
    if not path.exists():
        missing, similar = find_missing(path)
        folder = "" if missing == path else f"; folder {missing} does not exist"
        raise UserError(f"{path}: no such file{folder}{similar}")


def find_missing(path: Path) -> tuple[Path, str]:
    """The first part of a path that does not exist, and the nearest names in its folder."""
    folder = next(parent for parent in path.parents if parent.is_dir())
    name = path.relative_to(folder).parts[0]
    return folder / name, nearest((entry.name for entry in folder.iterdir()), name)


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Read a YAML file of options with values.

    Raises:
        UserError: If it is missing, not YAML, or not options with values.
    """
    check_file(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    # A number of 5,000 digits is a ValueError, deep nesting a RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as YAML ({error})") from error
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{path}: received {content!r}; expected options with values")
    return content or {}


def expand_files(spec: str | Path) -> list[Path]:
    """Find the files of a comma-separated list of paths and globs (with ``**``), each once.

    A path that exists is taken literally, even with a bracket in its name. The files of a glob
    are sorted by name; write ``?`` for a comma in a name. A ``Path`` is one path, even with commas
    in its name.

    Raises:
        UserError: If a path is missing or a glob matches no file.
    """
    files: list[Path] = []
    names = [str(spec)] if isinstance(spec, Path) else as_list(spec, "files")
    for name in names:
        path = user_path(name)
        if os.path.exists(path):  # Path.exists fails for long names
            check_file(path)
            files.append(path)
            continue
        matches = map(Path, sorted(glob.glob(str(path), recursive=True)))
        found = [match for match in matches if match.is_file()]
        if not found:
            check_file(path)
        files += found
    return list(dict.fromkeys(files))


def _open_zstd(path: Path, _: str) -> Any:
    import pyarrow as pa

    stream: Any = pa.input_stream(str(path), compression="zstd")
    return io.BufferedReader(stream)


COMPRESSIONS: dict[str, Callable[[Path, str], Any]] = {
    ".gz": gzip.open,
    ".zst": _open_zstd,
}
"""Function that opens a compressed file as bytes, by the last extension of its name."""


def open_bytes(path: Path) -> Any:
    """Open a file that may be compressed."""
    return COMPRESSIONS.get(path.suffix.lower(), Path.open)(path, "rb")


def extension(path: str | Path) -> str:
    """The extension of a name in lower case; an extension of a compression is ignored.

    Example:
        >>> extension("data/pairs.TSV.gz"), extension("lines.txt"), extension("STSB")
        ('.tsv', '.txt', '')
    """
    return _uncompressed(path).suffix.lower()


def table_name(path: str | Path) -> str:
    """The name of a file without folder and :func:`extension`.

    Example:
        >>> table_name("data/pairs.test.tsv.gz")
        'pairs.test'
    """
    return _uncompressed(path).stem


def _uncompressed(path: str | Path) -> Path:
    name = Path(path)
    return name.with_suffix("") if name.suffix.lower() in COMPRESSIONS else name


def stream_lines(path: Path) -> Iterator[str]:
    r"""Every line of a UTF-8 file, blank ones included, without a byte order mark.

    Lines end with ``\n`` or ``\r\n`` only: a Unicode line separator inside a sentence stays.

    Raises:
        UserError: If the file is missing, damaged, or not UTF-8.
    """
    check_file(path)
    number = 0
    try:
        with open_bytes(path) as lines:
            for number, line in enumerate(lines, start=1):
                text = line.decode("utf-8" if number > 1 else "utf-8-sig")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: line {number} is not UTF-8 text") from error
    # Compressions raise unrelated types for a damaged file.
    except Exception as error:
        raise UserError(f"{path}: damaged, or not readable ({error})") from error


def read_lines(path: Path) -> list[str]:
    """The lines of :func:`stream_lines` as a list."""
    return list(stream_lines(path))


_MARK = "\u0300"  # in the expression, stands for all marks
_PIECE = re.compile(rf"\w[\w{_MARK}]*|[^\w\s]")
_JOINERS = "\u200c\u200d"  # zero width non-joiner and joiner


def split_words(sentence: str) -> list[str]:
    """Split into words (letters, digits and underscores) and single other characters.

    Combining marks and joiners belong to the letter before them.

    References:
        Unicode Text Segmentation (Unicode Standard Annex 29), rule WB4.
        https://www.unicode.org/reports/tr29

    Example:
        >>> split_words("A dog's life.")
        ['A', 'dog', "'", 's', 'life', '.']
    """
    if sentence.isascii():
        return _PIECE.findall(sentence)
    shape = "".join(map(_shape, sentence))
    return [sentence[slice(*match.span())] for match in _PIECE.finditer(shape)]


@cache
def _shape(character: str) -> str:
    """Replace every mark by the same one; other characters stay."""
    is_mark = unicodedata.category(character).startswith("M")
    return _MARK if is_mark or character in _JOINERS else character
