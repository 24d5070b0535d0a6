"""Progress of long steps: shown on the command line, silent in library calls."""

import sys
from typing import Any

from tqdm.auto import tqdm

_bars_shown = False


def show_progress(shown: bool) -> None:
    """Switch progress bars and :func:`tell` on or off for this process."""
    global _bars_shown
    _bars_shown = shown


def bar(*args: Any, **options: Any) -> Any:
    """A tqdm bar, with its arguments, that appears after a second and leaves no line behind."""
    hidden = None if _bars_shown else True  # None: shown in terminals
    return tqdm(*args, delay=1, leave=False, disable=hidden, **options)


def tell(step: str) -> None:
    """Print the name of a step without a bar, in terminals."""
    if _bars_shown and sys.stderr.isatty():
        print(step, file=sys.stderr)
