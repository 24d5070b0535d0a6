"""Progress of long steps, shown in terminals and notebooks, with warnings above it."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

_bars_shown = True


def show_progress(shown: bool) -> None:
    """Switch progress bars and :func:`tell` on or off for this process."""
    global _bars_shown
    _bars_shown = shown


def share_console() -> None:
    """Let rich's console, which Lightning's bar uses, write to standard error.

    Bars and warnings then share one console.
    """
    from rich import reconfigure  # not before something is shown

    reconfigure(stderr=True, **console_options())


def console_options() -> dict[str, Any]:
    """Options of a rich console that does not change texts; no styles with ``NO_COLOR``."""
    options: dict[str, Any] = dict.fromkeys(("markup", "emoji", "highlight"), False)
    return options | ({"color_system": None} if os.environ.get("NO_COLOR") else {})


def _console() -> Any:
    """The shared console, or one of standard error."""
    from rich import console, get_console

    shared = get_console()
    own = {"stderr": True} | console_options()
    return shared if shared.stderr else console.Console(**own)


@contextmanager
def bar(
    step: str, total: int, shown: bool | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Show the progress of a step that takes more than a second; removed at the end.

    The bar has the numbers of finished and of all items, items per second, and the time.

    Args:
        step: Name of the step.
        total: Number of items.
        shown: Whether to show the bar; None for the setting of :func:`show_progress`.
        done: Number of items that are finished already.

    Yields:
        A function to call with the number of newly finished items.
    """
    from rich import progress as rich

    console, begin = _console(), time.monotonic()
    is_shown = _bars_shown if shown is None else shown
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TextColumn(
            "{task.completed:,.0f} of {task.total:,.0f}{task.fields[rate]}"
        ),
        rich.TextColumn("•"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("•"),
        rich.TimeRemainingColumn(),
    )
    bars = rich.Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (is_shown and (console.is_interactive or console.is_jupyter)),
    )
    task = bars.add_task(step, total=total, completed=done, rate="")
    finished = 0

    def advance(count: int) -> None:
        nonlocal finished
        finished += count
        seconds = time.monotonic() - begin
        if seconds > 1:
            rate = finished / seconds
            bars.update(task, rate=f" • {rate:,.0f} a second" if rate >= 1 else "")
            bars.start()
        bars.advance(task, count)

    try:
        yield advance
    finally:
        if not bars.disable:
            bars.stop()


def track(items: Collection[Any], step: str) -> Iterator[Any]:
    """Yield items below a :func:`bar`."""
    with bar(step, len(items)) as advance:
        for item in items:
            yield item
            advance(1)


def tell(step: str) -> None:
    """Print the name of a step without a bar, in terminals."""
    console = _console()
    if _bars_shown and console.is_terminal:
        console.print(step)


def print_warning(message: str) -> None:
    """Print a warning above the bars; without a terminal, in one line."""
    from rich.text import Text

    console = _console()
    console.print(Text(message, "yellow"), soft_wrap=not console.is_terminal)
