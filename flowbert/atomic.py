"""Files that appear under their name only when they are complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_atomically(path: str | Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; rename it to ``path`` at the end, or remove it after an error.

    Missing folders are made.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> with written_atomically(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> [file.name for file in folder.iterdir()]
        ['a.txt']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last: numpy and others append their own to a name without it.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes it private
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
