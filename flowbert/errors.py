"""Errors and warnings for users, and suggestions of similar names."""

import difflib
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from numbers import Number
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args


class UserError(ValueError):
    """A mistake in the user's input: a file, an option, a value.

    The message is one line that names the file or option, the value received and what is expected.
    The command line prints it without a stack trace and exits with code 2.

    Args:
        message: The message; None to make it of ``received`` and ``expected``.
        argument: Name of the argument, with which the message begins; None for other mistakes.
        received: Value of the argument.
        expected: Description of the allowed values.

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
    """A value in a message: text with quotes; paths and numbers without types; cut if long."""
    text = str(value) if isinstance(value, Number | PurePath) else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} ..."


_LISTENERS: list[list[str]] = []
LONGEST_VALUE = 200
"""Number of characters of a value that a message shows."""

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    list: "a list",
    list[int]: "a list such as 0,5",
    list[float]: "a list such as 0,5",
}
"""Values of types in messages."""

_MEANT = {"output": "run_dir", "run_dir": "output", "gpus": "devices"}
"""Options that other programs, or other commands, have under another name."""


class FlowbertWarning(UserWarning):
    """A warning to the user; the run continues."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        for messages in _LISTENERS:
            if message not in messages:
                messages.append(message)


def warn(message: str, level: int = 2) -> None:
    """Issue a :class:`FlowbertWarning`.

    Args:
        message: The warning.
        level: Stack level of the code to name: 2 is the caller of the function that warns.
    """
    warnings.warn(message, FlowbertWarning, stacklevel=level + 1)


@contextmanager
def record_warnings() -> Iterator[list[str]]:
    """Yield a list of the warnings issued inside the block, each once, shown or not."""
    messages: list[str] = []
    _LISTENERS.append(messages)
    try:
        yield messages
    finally:
        # By identity: another list may be equal.
        _LISTENERS[:] = [other for other in _LISTENERS if other is not messages]


def nearest(names: Iterable[str], received: str) -> str:
    """``" (did you mean 'a'?)"`` for similar names, or an empty string."""
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


def similar_option(names: Iterable[str], received: str) -> str:
    """:func:`nearest` by the last part of an option's full name, at most two, nearest first."""
    parts = {name: name.rpartition(".")[2] for name in names}
    last = received.rpartition(".")[2]
    last = _MEANT.get(last, last)
    similar = difflib.get_close_matches(last, parts.values(), n=1)
    alike = [f"--{name}" for name in parts if parts[name] in similar]
    found = difflib.get_close_matches(f"--{received}", alike, n=2, cutoff=0)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""


def allowed_values(types: Iterable[Any]) -> str:
    """Description of the values of types; all values of a literal.

    Example:
        >>> allowed_values([int, None | list[int]])
        'a whole number or null or a list such as 0,5'
    """
    words: list[str] = []
    for hint in types:
        kind = getattr(hint, "__origin__", type(hint))
        if kind is Literal:
            words += map(str, get_args(hint))
        elif kind in (Union, UnionType):
            words.append(allowed_values(get_args(hint)))
        elif hint is not Any:
            words.append(WORDS.get(hint) or WORDS.get(kind, "a class"))
    return " or ".join(dict.fromkeys(filter(None, words)))


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
