"""Progress bars of long steps: shown on the command line, silent in library calls."""

from typing import Any

from tqdm.auto import tqdm

_bars_shown = False


def show_progress(shown: bool) -> None:
    """Switch progress bars on or off for this process."""
    global _bars_shown
    _bars_shown = shown


def bar(*args: Any, **options: Any) -> Any:
    """A tqdm bar, with its arguments, that appears after two seconds and leaves no line behind."""
    hidden = None if _bars_shown else True  # None: shown in terminals
    return tqdm(*args, delay=2, leave=False, disable=hidden, **options)
