"""JSON files read with one message for whatever is wrong with them."""

import json
from pathlib import Path
from typing import Any

from flowbert.errors import UserError


def read_json(path: str | Path, kind: type = dict, *, needed: str = "the file as it was written") -> Any:
    """Content of a JSON file.

    Args:
        path: The file.
        kind: What it holds: dict or list.
        needed: What would do in its place, for the message.

    Raises:
        UserError: If it cannot be read, is not JSON, or holds something else.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.json")
        >>> _ = path.write_text("[1, 2]")
        >>> read_json(path, list)
        [1, 2]
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); needed: {needed}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON, or damaged ({error}); needed: {needed}") from error
    if not isinstance(content, kind):
        raise UserError(f"{path}: holds {type(content).__name__}; needed: {kind.__name__}, {needed}")
    return content
