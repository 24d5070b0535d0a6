"""The command line under which files are written, for the records in them."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND: ContextVar[str | None] = ContextVar("command", default=None)


@contextmanager
def run_as(words: Sequence[str]) -> Iterator[None]:
    """Whatever is written inside was asked for by these words."""
    token = _COMMAND.set(shlex.join(words))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def command_line() -> str | None:
    """The command line, to paste into a shell; None where Python code called."""
    return _COMMAND.get()
