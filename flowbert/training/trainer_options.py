"""Options of Lightning's Trainer, by its signature: descriptions, and values of text."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args

import jsonargparse
import yaml
from docstring_parser.google import parse as parse_docstring
from pytorch_lightning import Trainer

from flowbert.errors import UserError, allowed_values, similar_option
from flowbert.options import TRAINER_DEFAULTS


class TrainerOption(NamedTuple):
    """Default and description of an option."""

    default: Any
    description: str


def list_trainer_options() -> dict[str, TrainerOption]:
    """Options of the Trainer by full name, such as ``trainer.max_epochs``."""
    described = parse_docstring(str(Trainer.__init__.__doc__)).params
    texts = {each.arg_name: each.description or "" for each in described}
    options = {}
    for name, parameter in inspect.signature(Trainer).parameters.items():
        if name != "default_root_dir":
            default = TRAINER_DEFAULTS.get(name, parameter.default)
            text = " ".join(texts.get(name, "").split())
            if name in TRAINER_DEFAULTS:
                text = text.partition(" Default: ")[0]  # Lightning's
            text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)  # of Sphinx
            options[f"trainer.{name}"] = TrainerOption(default, text)
    return options


def read_trainer_options(
    given: Sequence[tuple[str, str, str]], *, defaults: bool
) -> dict[str, Any]:
    """Options of the Trainer as YAML values; objects are named by class path.

    Args:
        given: Place (a file, or ``--``), full name and text of each option.
        defaults: Whether to include options that are not set.

    Raises:
        UserError: If an option does not exist, or a value is not allowed.
    """
    known = list_trainer_options()
    for where, name, _ in given:
        # A class has options of its own, such as trainer.callbacks.patience; + appends.
        if ".".join(name.removesuffix("+").split(".")[:2]) not in known:
            hint = similar_option(known, name)
            raise UserError(f"{where}{name}: no such option{hint}; see --help trainer")
    words = [f"--{name}={text}" for _, name, text in given]
    parser = jsonargparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_class_arguments(
        Trainer,
        "trainer",
        skip={"default_root_dir"},
        instantiate=False,
        fail_untyped=False,
        sub_configs=True,
    )
    hints = {}
    for action in parser._actions:
        if hasattr(action, "_typehint"):
            action._typehint = whole_numbers_first(action._typehint)
            hints[action.dest] = action._typehint
    parser.set_defaults({f"trainer.{name}": x for name, x in TRAINER_DEFAULTS.items()})
    try:
        parsed = parser.parse_args(words, defaults=defaults)
    except jsonargparse.ArgumentError as error:
        raise _rewritten(str(error), hints) from error
    text = parser.dump(parsed, skip_none=False, skip_validation=True)
    options: dict[str, Any] = (yaml.safe_load(text) or {}).get("trainer", {})
    return options


def _rewritten(message: str, hints: Mapping[str, Any]) -> UserError:
    """The error of a message of jsonargparse: option, received value, allowed values."""
    found = re.search(r'[Kk]ey "([^"]+)"', message)
    if found is None:
        return UserError(message)
    value = re.findall("Given value: ?(.*)", message)[-1]
    # An option of a class, such as trainer.callbacks.patience, without the class.
    received = re.sub(r"NestedArg\(key='(.*)', val='(.*)'\)", r"\1=\2", value)
    expected = allowed_values(get_args(hints[found[1]]))
    text = f"received {received}; expected {expected}"
    return UserError(text, argument=f"--{found[1]}")


def whole_numbers_first(hint: Any) -> Any:
    """Reorder a union so that 1 means one batch and not 1.0, all batches.

    ``Optional[Union[int, float]]`` has the order of an equal type that was created earlier,
    anywhere.
    """
    parts = get_args(hint)
    if not {int, float} <= set(parts):
        return hint
    return Union[tuple(sorted(parts, key=lambda part: part is not int))]  # noqa: UP007
