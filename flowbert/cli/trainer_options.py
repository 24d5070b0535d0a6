"""Options of Lightning's Trainer, which jsonargparse reads."""

import re
from collections.abc import Sequence
from typing import Any, Union, get_args

import jsonargparse
import yaml
from pytorch_lightning import Trainer

from flowbert.cli.line import allowed_values
from flowbert.errors import UserError
from flowbert.options import TRAINER_DEFAULTS


class _Parser(jsonargparse.ArgumentParser):
    """A parser whose errors name the option, the value received and what is allowed."""

    def error(self, message: str, ex: Exception | None = None) -> Any:
        """Raise a UserError."""
        if not self.exit_on_error:  # the parser of a class that an option names
            return super().error(message, ex)
        found = re.search(r'[Kk]ey "([^"]+)"', message)
        if found is None:
            raise UserError(message) from ex
        value = re.findall("Given value: ?(.*)", message)[-1]
        # An option of a class, such as trainer.callbacks.patience, without the class.
        received = re.sub(r"NestedArg\(key='(.*)', val='(.*)'\)", r"\1=\2", value)
        hints = {each.dest: getattr(each, "_typehint", None) for each in self._actions}
        expected = allowed_values(get_args(hints[found[1]]))
        text = f"received {received}; expected {expected}"
        raise UserError(text, argument=found[1]) from ex


def read_trainer(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the Trainer that are given, and the same as YAML has them, with defaults.

    Args:
        words: Options ``--trainer.NAME=VALUE``.

    Raises:
        UserError: If a value is not allowed.
    """
    parser = _Parser(allow_abbrev=False)
    parser.add_class_arguments(
        Trainer,
        "trainer",
        skip={"default_root_dir"},
        instantiate=False,
        fail_untyped=False,
        sub_configs=True,
    )
    for action in parser._actions:
        if hasattr(action, "_typehint"):
            action._typehint = whole_numbers_first(action._typehint)
    given = parser.parse_args(words, defaults=False)
    arguments = parser.instantiate_classes(given).as_dict()
    parser.set_defaults({f"trainer.{name}": x for name, x in TRAINER_DEFAULTS.items()})
    text = parser.dump(parser.parse_args(words), skip_none=False, skip_validation=True)
    return arguments.get("trainer", {}), yaml.safe_load(text)["trainer"]


def whole_numbers_first(hint: Any) -> Any:
    """A union by which 1 is one batch and not 1.0, all of them.

    ``Optional[Union[int, float]]`` has the order of an equal type that was made before, anywhere.
    """
    parts = list(get_args(hint))
    if not {int, float} <= set(parts):
        return hint
    if parts.index(int) > parts.index(float):
        parts.remove(int)
        parts.insert(parts.index(float), int)
    return Union[tuple(parts)]  # noqa: UP007
