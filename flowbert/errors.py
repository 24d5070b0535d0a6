"""What a user can get wrong, said once: the error, the warning, and the suggestion of the nearest name."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in what the user gave (a file, an option, a value).

    The message is one line and names the file, line or option, the value received and what is allowed. The command
    line prints it without a stack trace and ends with exit code 2.
    """

    def __init__(self, message: str) -> None:
        # What is quoted (a name, a library's reason) may have line ends.
        super().__init__(" ".join(message.splitlines()))


class NoFigureError(UserError):
    """A figure that does not exist for one method: its row says why, and the other rows stand."""


class FlowbertWarning(UserWarning):
    """Something the user should know although the run goes on; the message carries the numbers."""


def choices(allowed: Iterable[str], received: str) -> str:
    """Say what is allowed, the nearest name first: ``"allowed: a, b (did you mean 'a'?)"``."""
    names = list(allowed)
    return f"allowed: {', '.join(names)}{nearest(names, received)}"


def nearest(names: Iterable[str], received: str) -> str:
    """The names that are like the one received: ``" (did you mean 'a'?)"``, or nothing."""
    near = difflib.get_close_matches(received, list(names), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
