"""Options without effect, which are refused where they are given."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from flowbert.errors import UserError

# Of every method: a map in closed form has its encoder on the device, too.
_ALWAYS_USED = (
    "trainer.accelerator",
    "trainer.devices",
    "trainer.enable_progress_bar",
)


def is_unused(name: str, unused: Mapping[str, tuple[str, ...]]) -> str | None:
    """What an option has no effect on; None if it has one.

    Args:
        name: Full name of the option, such as ``trainer.max_epochs``.
        unused: Patterns of options, by what they have no effect on.
    """
    if name in _ALWAYS_USED:
        return None
    for where, patterns in unused.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return where
    return None


def check_given(
    given: Mapping[str, Any], unused: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse options without effect.

    Args:
        given: Options by their full names; None where they are not given.
        unused: Patterns of options, by what they have no effect on.

    Raises:
        UserError: With the first option that is given and has no effect.
    """
    for name, value in given.items():
        where = is_unused(name, unused)
        if value is not None and where is not None:
            raise UserError(
                f"received {value!r}, which has no effect on {where}; expected none",
                argument=name,
            )
