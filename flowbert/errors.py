"""Errors and warnings meant for users, and suggestions of the nearest name."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class UserError(ValueError):
    """A mistake in what the user gave: a file, an option, a value.

    The message is one line that names the file or option, the value received and what is expected.
    The command line prints it without a stack trace and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


_LISTENERS: list[list[str]] = []


class FlowbertWarning(UserWarning):
    """Something the user should know although the run goes on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        for heard in _LISTENERS:
            if message not in heard:
                heard.append(message)


@contextmanager
def hear_warnings() -> Iterator[list[str]]:
    """Yield a list of the warnings that are given meanwhile, each once, shown or not."""
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
    """List the allowed names, with the nearest ones: ``"expected a, b (did you mean 'a'?)"``."""
    names = list(allowed)
    return f"expected {', '.join(names)}{nearest(names, received)}"


def check_choice(argument: str, received: str, allowed: Collection[str]) -> None:
    """Raise a UserError for a name that is not allowed."""
    if received not in allowed:
        raise UserError(
            f"{argument}: received {received!r}; {choices(allowed, received)}"
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
                f"{name}: received {value!r}, which has no effect on {where}; expected none"
            )


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
