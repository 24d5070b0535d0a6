"""Progress of long steps, shown in terminals and notebooks."""

import sys
from typing import Any

from tqdm.auto import tqdm

_bars_shown = True


def show_progress(shown: bool) -> None:
    """Switch progress bars and :func:`tell` on or off for this process."""
    global _bars_shown
    _bars_shown = shown


def bar(*args: Any, shown: bool | None = None, **options: Any) -> Any:
    """A tqdm bar, with its arguments, that appears after a second and leaves no line behind.

    Args:
        *args: Arguments of tqdm.
        shown: Whether it is shown; None for in terminals and notebooks.
        **options: Arguments of tqdm.
    """
    hidden = None if shown is None else not shown
    if shown is None and not _bars_shown:
        hidden = True
    elif shown is None and "ipykernel" in sys.modules:  # its stderr is not a terminal
        hidden = False
    return tqdm(*args, delay=1, leave=False, disable=hidden, **options)


def tell(step: str) -> None:
    """Print the name of a step without a bar, in terminals."""
    if _bars_shown and sys.stderr.isatty():
        print(step, file=sys.stderr)
