"""How far a long step is: a bar on a terminal, elsewhere a line every 30 seconds.

Nothing is shown unless it is switched on: the commands do so, and :func:`shown` does for calls of the library. A step
counts by an addition. A thread looks at all open steps a few times a second and draws them, the outermost first.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

_T = TypeVar("_T")
_BAR_AFTER = 2.0  # seconds that a step has lasted
_LINE_EVERY = 30.0  # seconds
_LOOKS = 4  # a second
_RATE_OVER = 30  # seconds: sentences are encoded the short ones first, so older ones tell nothing of the next
_ENOUGH = 10  # done in that time; of fewer the rate is that of the whole step
_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
_switch: ContextVar[bool | None] = ContextVar("whether progress is shown; None: nobody said", default=None)
_owner: ContextVar[object] = ContextVar("the call of shown() that has switched it on", default=None)


class Step:
    """Something that takes long, and how much of it is done.

    Args:
        what: What is done: ``Encoding``.
        total: How much there is to do; None if nobody knows.
        unit: Of what: ``sentences``.
        done: How much of it was done before.

    Attributes:
        note: What else is shown, such as a loss.
        owner: The call of :func:`shown` inside which it was opened.
    """

    def __init__(self, what: str, total: int | None, unit: str, done: int = 0) -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self.note = ""
        self.owner = _owner.get()
        self.started = time.monotonic()
        self._looks = deque([(self.started, done)])
        self._first = done

    def update(self, n: int = 1) -> None:
        """So much more is done."""
        self.done += n

    def look(self, now: float) -> None:
        """Note how much is done at this time, of :func:`time.monotonic`."""
        self._looks.append((now, self.done))
        while now - self._looks[0][0] > _RATE_OVER:
            self._looks.popleft()

    def figures(self) -> str:
        """How much is done, the rate and the time left, and the note.

        Example:
            >>> step = Step("Encoding", 100, "sentences")
            >>> step.done = 40
            >>> step.look(step.started + 4)
            >>> step.figures()
            '40/100 sentences, 10/s, 0:06 left'
        """
        (then, before), (now, done) = self._looks[0], self._looks[-1]
        if done - before < _ENOUGH:
            then, before = self.started, self._first
        rate = (done - before) / (now - then) if now > then else 0.0
        parts = []
        if self.total is not None:
            parts.append(f"{done:,}/{self.total:,} {self.unit}")
        elif done:
            parts.append(f"{done:,} {self.unit}")
        if rate > 0:
            parts.append(_per_second(rate))
        if rate > 0 and self.total is not None:
            parts.append(f"{_clock((self.total - done) / rate)} left")
        if self.total is None:
            parts.append(_clock(now - self.started))
        return ", ".join([*parts, self.note] if self.note else parts)


@contextmanager
def shown(on: bool | None = True) -> Iterator[None]:
    """Show the progress of what is called inside; with ``on=False`` do not, nor downloads; with None, as outside.

    Example:
        >>> import flowbert
        >>> with shown():
        ...     vectors = flowbert.encode(["a dog runs", "the cat sleeps"])
    """
    outside = _switch.get()
    mine = object() if on and not outside else _owner.get()
    switch, owner = _switch.set(outside if on is None else on), _owner.set(mine)
    try:
        yield
    finally:
        _owner.reset(owner)
        _switch.reset(switch)
        if mine is not _owner.get():
            _display.stop(mine)  # also after Ctrl-C, before anything else is said; other threads may go on


def hide() -> None:
    """Show no progress from here to the end of the surrounding :func:`shown`."""
    _switch.set(False)


def is_hidden() -> bool:
    """Whether it was said that no progress is to be shown."""
    return _switch.get() is False


def on_terminal() -> bool:
    """Whether stderr is a terminal that a bar can be drawn on."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """Print a line to stderr, above the bars if there are any."""
    if _display.console is None:
        print(text, file=sys.stderr)
    else:
        _display.console.out(text, highlight=False)


def _is_shown() -> bool:
    """Whether progress is switched on and this is the first of several processes."""
    first = all(os.environ.get(name, "0") == "0" for name in _RANKS) and multiprocessing.parent_process() is None
    return first and bool(_switch.get())


@contextmanager
def progress(total: int | None, what: str, unit: str = "", *, done: int = 0) -> Iterator[Step]:
    """A step that is shown once it has lasted two seconds, as the arguments of :class:`Step` say; nothing to do is not.

    Steps may lie within each other.

    Example:
        >>> with progress(3, "Encoding", "sentences") as step:
        ...     step.update(3)
    """
    step = Step(what, total, unit, done)
    if total == 0 or not _is_shown():
        yield step
        return
    _display.open(step)
    try:
        yield step
    finally:
        _display.close(step)


def tracked(items: Iterable[_T], what: str, unit: str, total: int | None = None) -> Iterator[_T]:
    """The items, and how many of them are done, see :func:`progress`; ``total`` where they have no length.

    Example:
        >>> list(tracked("abc", "Reading", "letters"))
        ['a', 'b', 'c']
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(total, what, unit) as step:
        for item in items:
            yield item
            step.update()


_Draw = Callable[[Sequence[Step]], None]


class _Display:
    """Draws the open steps from a thread that lives as long as there is one.

    Attributes:
        console: The terminal, while there are bars on it.
    """

    def __init__(self) -> None:
        self.console: Console | None = None
        self._steps: list[Step] = []
        self._lock = threading.Lock()
        self._over = threading.Event()  # one for each thread
        self._thread: threading.Thread | None = None

    def open(self, step: Step) -> None:
        with self._lock:
            self._steps.append(step)
            if self._thread is None:
                self._over = threading.Event()
                self._thread = threading.Thread(target=self._draw, args=(self._over,), name="progress", daemon=True)
                self._thread.start()

    def close(self, step: Step) -> None:
        with self._lock:
            self._keep([other for other in self._steps if other is not step])

    def stop(self, owner: object) -> None:
        """Close the steps of an owner."""
        with self._lock:
            self._keep([step for step in self._steps if step.owner is not owner])

    def _keep(self, steps: list[Step]) -> None:
        self._steps = steps
        thread = self._thread
        if steps or thread is None:
            return
        self._thread = None  # first: Ctrl-C may end the wait for it
        self._over.set()
        thread.join()

    def _draw(self, over: threading.Event) -> None:
        with _bars() if on_terminal() else _lines() as draw:
            while not over.wait(1 / _LOOKS):
                now, steps = time.monotonic(), list(self._steps)
                for step in steps:
                    step.look(now)
                draw([step for step in steps if now - step.started >= _BAR_AFTER])


_display = _Display()


@contextmanager
def _lines() -> Iterator[_Draw]:
    said = time.monotonic()

    def draw(steps: Sequence[Step]) -> None:
        nonlocal said
        if steps and time.monotonic() - said >= _LINE_EVERY:
            said = time.monotonic()
            print("; ".join(f"{step.what}: {step.figures()}" for step in steps), file=sys.stderr, flush=True)

    yield draw


@contextmanager
def _bars() -> Iterator[_Draw]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn
    from rich.table import Column

    text = Column(no_wrap=True, overflow="ellipsis")
    console = Console(file=sys.stderr, force_terminal=True)
    bars = Progress(
        TextColumn("{task.description}", markup=False, table_column=text),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[figures]}", markup=False, table_column=text),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,  # other threads may redirect them, too
        redirect_stderr=False,
    )
    tasks: dict[Step, TaskID] = {}

    def draw(steps: Sequence[Step]) -> None:
        for step in tasks.keys() - set(steps):
            bars.remove_task(tasks.pop(step))
        for step in steps:
            if step not in tasks:
                tasks[step] = bars.add_task(step.what, total=step.total, figures=step.figures())
            bars.update(tasks[step], completed=step.done, total=step.total, figures=step.figures())
        if steps and not bars.live.is_started:
            bars.start()
            console.show_cursor(True)  # a process that is killed must not take the cursor along
            _display.console = console
        bars.refresh()

    try:
        yield draw
    finally:
        _display.console = None
        bars.stop()


def _per_second(rate: float) -> str:
    """A rate, or its inverse where that reads better.

    Example:
        >>> _per_second(1234.5), _per_second(2.34), _per_second(0.05)
        ('1,234/s', '2.3/s', '20 s each')
    """
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:,.0f} s each"


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> _clock(61), _clock(3725)
        ('1:01', '1:02:05')
    """
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
