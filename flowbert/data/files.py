"""Where the user's files are: names, globs and lists, with the nearest names when one is not there."""

import glob
from collections.abc import Sequence
from pathlib import Path

from flowbert.errors import UserError, nearest


def listing(names: Sequence[str], limit: int = 8) -> str:
    """Names in one line, at most ``limit`` of them: ``"a, b, c and 4 more"``, or ``"nothing"``."""
    if not names:
        return "nothing"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def as_list(value: str | Sequence[str] | None, argument: str) -> list[str]:
    """Items of a list, or of a comma-separated text, each once; none for None.

    Raises:
        UserError: If there is none.

    Example:
        >>> as_list("raw, whitening", "methods"), as_list(["raw"], "methods"), as_list(None, "methods")
        (['raw', 'whitening'], ['raw'], [])
    """
    if value is None:
        return []
    items = value.split(",") if isinstance(value, str) else value
    names = list(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not names:
        raise UserError(f"{argument}: received {value!r}; allowed: one name or more, comma-separated")
    return names


def folder_names(folder: Path) -> list[str]:
    """Sorted names in a folder; empty if there is no such folder."""
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def check_file(path: Path) -> None:
    """Check that a path is a file that is not empty.

    Raises:
        UserError: If it is missing (with the nearest names in its folder), a folder, or empty.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a folder, a file is needed; it holds {listing(folder_names(path))}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: no such file; there is no folder {path.parent}")
    if not path.is_file():
        names = folder_names(path.parent)
        held = f"{listing(names)}{nearest(names, path.name)}"
        raise UserError(f"{path}: no such file; the folder {path.parent} holds {held}")
    if path.stat().st_size == 0:
        raise UserError(f"{path}: the file is empty")


def expand_files(spec: str | Path) -> list[Path]:
    """Files that a comma-separated list of paths and globs (``**`` too) names, each once, in the order given.

    A path that exists is taken as it is, even with a comma or a bracket in its name; the files of one glob are sorted.

    Raises:
        UserError: If a path is missing or a glob matches no file.
    """
    whole = Path(spec).expanduser()
    if whole.exists():
        check_file(whole)
        return [whole]
    patterns = [str(Path(pattern.strip()).expanduser()) for pattern in str(spec).split(",") if pattern.strip()]
    if not patterns:
        raise UserError(f"no file given (received {str(spec)!r}); allowed: a path, a glob, or a list with commas")
    return list(dict.fromkeys(path for pattern in patterns for path in _expand_one(pattern)))


def _expand_one(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.exists() or not glob.has_magic(pattern):
        check_file(path)
        return [path]
    matches = sorted(Path(match) for match in glob.glob(pattern, recursive=True) if Path(match).is_file())
    if not matches:
        raise UserError(f"{pattern}: no file matches this glob")
    return matches
