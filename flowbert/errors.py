"""Errors and warnings meant for users, and suggestions of the nearest name."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from pathlib import PurePath
from typing import Any


class UserError(ValueError):
    """A mistake in the user's input: a file, an option, a value.

    The message is one line that names the file or option, the value received and what is expected.
    The command line prints it without a stack trace and exits with code 2.

    Args:
        message: What is wrong; None for what was received and what is expected.
        argument: Name of the argument, which the message begins with; None if it is about none.
        received: Value of the argument.
        expected: What is allowed instead.

    Attributes:
        argument: Name of the argument, or None.

    Example:
        >>> str(UserError(argument="seed", received=-1, expected="0 or more"))
        'seed: received -1; expected 0 or more'
        >>> str(UserError("is fitted in closed form", argument="method"))
        'method: is fitted in closed form'
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        argument: str | None = None,
        received: Any = None,
        expected: str = "",
    ) -> None:
        if message is None:
            message = f"received {_shown(received)}; expected {expected}"
        if argument is not None:
            message = f"{argument}: {message}"
        super().__init__(" ".join(message.split()))
        self.argument = argument


def _shown(value: Any) -> str:
    """A value in a message: text between quotes; numbers of numpy and paths as they are read."""
    return str(value) if isinstance(value, Number | PurePath) else repr(value)


_LISTENERS: list[list[str]] = []


class FlowbertWarning(UserWarning):
    """Something the user should know; the run continues."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        for heard in _LISTENERS:
            if message not in heard:
                heard.append(message)


@contextmanager
def hear_warnings() -> Iterator[list[str]]:
    """Yield a list of the warnings issued inside the block, each once, shown or not."""
    heard: list[str] = []
    _LISTENERS.append(heard)
    try:
        yield heard
    finally:
        # By identity: another list may hold the same.
        _LISTENERS[:] = [each for each in _LISTENERS if each is not heard]


def nearest(names: Iterable[str], received: str) -> str:
    """``" (did you mean 'a'?)"``, or an empty string if no name is similar."""
    similar = difflib.get_close_matches(received, list(names), n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, similar))}?)" if similar else ""


def choices(allowed: Iterable[str], received: str) -> str:
    """List the allowed names, with the nearest ones: ``"a, b (did you mean 'a'?)"``."""
    names = list(allowed)
    return f"{', '.join(names)}{nearest(names, received)}"


def check_choice(argument: str, received: Any, allowed: Collection[str]) -> None:
    """Raise a UserError for a name that is not allowed."""
    if received not in allowed:
        raise UserError(
            argument=argument,
            received=received,
            expected=choices(allowed, str(received)),
        )


def check_used(given: Mapping[str, Any], used: Collection[str], where: str) -> None:
    """Raise a UserError for the first option that is given and has no effect.

    Args:
        given: Options by name, None where they are not given.
        used: Names of those that have an effect.
        where: What the others have no effect on.
    """
    for name, value in given.items():
        if value is not None and name not in used:
            raise UserError(
                f"received {value!r}, which has no effect on {where}; expected none",
                argument=name,
            )


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
