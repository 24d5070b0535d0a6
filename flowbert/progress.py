"""Progress bars of long steps: shown on the command line, silent in library calls."""

from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm

_shown = False


def show_progress(shown: bool) -> None:
    """Switch progress bars on or off for this process."""
    global _shown
    _shown = shown


def bar(
    iterable: Iterable[Any] | None = None,
    desc: str = "",
    total: int | None = None,
    unit: str = "it",
) -> Any:
    """A tqdm bar that appears after two seconds and leaves no line behind."""
    return tqdm(
        iterable,
        desc=desc,
        total=total,
        unit=unit,
        delay=2,
        leave=False,
        disable=None if _shown else True,  # None: shown in terminals
    )
