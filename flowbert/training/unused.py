"""Options of a run that would have no effect, which are refused where they are given."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from flowbert.errors import UserError

TRAINED_METHODS = ("flow", "simcse", "sbert", "mlm")
"""Methods that a Trainer trains; every other one is fitted in closed form."""

_WITHOUT_FILES = ("target", "train_only", "nli", "builtin-sample")
# Of a method in closed form: the encoder's device; and no bar is shown.
_OF_THE_DEVICE = (
    "trainer.accelerator",
    "trainer.devices",
    "trainer.enable_progress_bar",
)


def unused_options(
    method: str, vectors: bool, corpus: Any = None
) -> dict[str, tuple[str, ...]]:
    """Patterns of options without effect, by what they have none on.

    Those that make the examples of a trained encoder are in
    :func:`flowbert.methods.make_examples`.

    Args:
        method: The method.
        vectors: Whether it is fitted on vectors in place of sentences.
        corpus: What it is fitted on, if that is given.
    """
    unused: dict[str, tuple[str, ...]] = {}
    named = "target" if corpus is None else corpus
    if not isinstance(named, str):
        named = "in memory"
    if vectors:
        options = ("corpus", "nli", "max_sentences", "tasks", "senteval", "cache")
        where = "vectors, which are neither encoded nor measured"
        unused[where] = ("encoder", "encoder.*", *options)
    elif named in _WITHOUT_FILES:
        unused[f"the corpus {named}, which is no table"] = ("column",)
    if method not in TRAINED_METHODS:
        where = f"method {method}, which is fitted in closed form"
        unused[where] = ("baseline", "checkpoint.*", "trainer.*")
    elif method != "flow":
        unused[f"method {method}"] = ("baseline",)
    if method not in TRAINED_METHODS[1:] and named != "nli":
        unused[f"the corpus {named}"] = ("nli",)
    return unused


def is_unused(name: str, unused: Mapping[str, tuple[str, ...]]) -> str | None:
    """What an option has no effect on; None if it has one."""
    if name in _OF_THE_DEVICE:
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
        given: Options by their full names, such as ``trainer.max_epochs``; None where they are not
            given.
        unused: What :func:`unused_options` says.

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
