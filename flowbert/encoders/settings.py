"""How an encoder is used where that is not told: as it was trained, as its folder says, or as usual."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.encoders.after_pooling import DENSE, MODULES, NONE
from flowbert.encoders.saving import trained_settings
from flowbert.encoders.sentence_folder import SentenceFolder
from flowbert.encoders.token_counts import FITTED_ON
from flowbert.errors import FlowbertWarning, UserError, choices

_USUAL = {"layers": "last", "pooling": "mean", "max_length": 128, "prompt": "", "modules": DENSE, "counts": FITTED_ON}
_BEFORE = {"prompt": "", "modules": NONE}  # what descriptions of version 0.1.0 do not say
_DESCRIBED = ("path", "revision", "layers", "pooling", "max_length", "dtype", *_BEFORE)


def settings_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of :meth:`SentenceEncoder.from_pretrained` that load the encoder of a saved description again.

    Example:
        >>> saved = {"path": "p", "revision": "v", "layers": [4], "pooling": "cls", "max_length": 9, "dtype": "half"}
        >>> settings_of({**saved, "weights": "ab12"}) == {**saved, "prompt": "", "modules": "none"}
        True
    """
    return {name: {**_BEFORE, **description}[name] for name in _DESCRIBED}


def choose_settings(path: str, folder: Path, given: Mapping[str, Any], *, frozen: bool) -> dict[str, Any]:
    """What is used of layers, pooling, max_length, prompt, modules and counts: arguments of :class:`SentenceEncoder`.

    Args:
        path: The encoder as it was named.
        folder: Where its files are.
        given: What was told of each; None is not.
        frozen: Whether its weights stay as they are.

    Raises:
        UserError: If ``modules`` is none of its words, a file in the folder is damaged, or asks for what there is not.
    """
    if given["modules"] not in (None, *MODULES):
        raise UserError(f"modules: received {given['modules']!r}; {choices(MODULES, given['modules'])}")
    told = {name: value for name, value in given.items() if value is not None}
    trained, of_folder = trained_settings(str(folder)), SentenceFolder(folder)
    found: dict[str, Any] = dict(_USUAL)
    if trained:
        found["modules"] = NONE
    elif of_folder:
        found["prompt"] = of_folder.prompt
        if of_folder.max_length is not None:
            found["max_length"] = of_folder.max_length
        if "pooling" not in told and of_folder.pooling is not None:
            found["pooling"] = of_folder.pooling
        if frozen and "modules" not in told and of_folder.ends_in_normalize:
            warnings.warn(
                f"encoder {path!r} ends in Normalize, which is left out: cosines are the same, and maps are fitted on "
                "the vectors as pooled; modules all applies it, dense says that this is meant",
                FlowbertWarning,
                stacklevel=4,
            )
    used = {**found, **trained, **told}
    of_folder.check_prompt(used["prompt"])
    used["after_pooling"] = of_folder.after_pooling(used.pop("modules"))
    return used


def warn_of_other_use(folder: Path, description: Mapping[str, Any]) -> None:
    """Say so if an encoder that was trained here is used in another way than it was trained.

    Args:
        folder: Where its files are.
        description: How it is used, as :meth:`SentenceEncoder.describe` gives it.
    """
    trained = trained_settings(str(folder))
    for name in ("layers", "pooling", "prompt"):
        there, here = trained.get(name, _BEFORE.get(name, description[name])), description[name]
        if trained and there != here:
            message = f"encoder {description['path']!r} was trained with {name} {there!r}, and is used with {here!r}"
            warnings.warn(message, FlowbertWarning, stacklevel=3)
