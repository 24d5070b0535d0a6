"""Values of options: from the text of a command line, and from YAML."""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args

import yaml

from flowbert.data.text_files import as_list
from flowbert.errors import UserError
from flowbert.numbers import WORDS, check_number, parse_integer, parse_number

_IN_WORDS = {**WORDS, bool: "true or false", str: "text", NoneType: "null"}


def read_value(name: str, value: Any, types: Sequence[Any]) -> Any:
    """Read the value of an option.

    Args:
        name: Name of the option.
        value: Text, or a value of a YAML file. A list is ``a,b`` or ``[a, b]``, None is ``null``.
        types: The types that are allowed. Text is taken as it is where text is allowed.

    Raises:
        UserError: If the value has another type, or is outside of the limits of its type.
    """
    try:
        read = _read(value, types)
    except (ValueError, yaml.YAMLError) as error:
        received = "null" if value is None else value
        expected = allowed_values(types) or "another value"
        message = f"received {received}; expected {expected}"
        raise UserError(message, argument=name) from error
    for hint in types if read is not None else ():
        check_number(name, read, hint)
    return read


def _read(value: Any, types: Sequence[Any]) -> Any:
    kinds = {getattr(hint, "__origin__", hint): hint for hint in types}
    text = str(value)
    if value in (None, "null"):
        if NoneType in kinds:
            return None
    elif bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    elif list[Any] in types and value is not text:
        return value
    elif list[Any] in types and (items := _listed(text)):
        return items[0] if len(items) == 1 else items
    elif str in kinds and value is text:
        return value  # its function reads names a,b
    elif list in kinds and (text[:1] == "[" or "," in text or int not in kinds):
        items = value if isinstance(value, list) else as_list(text, "")
        return [_read(item, get_args(kinds[list])) for item in items]
    elif float in kinds:
        return parse_number(text)
    elif int in kinds:
        return parse_integer(text)
    raise ValueError(value)


def _listed(text: str) -> list[Any]:
    """Items of ``[1,12],last``; none of a text that is no list, such as ``[INST] {} [/INST]``."""
    if text[:1] != "[":
        return []
    try:
        items: list[Any] = yaml.safe_load(f"[{text}]")
    except yaml.YAMLError:
        return []
    return items


def allowed_values(types: Sequence[Any]) -> str:
    """Words for the values that types allow; all values of a literal."""
    words: list[str] = []
    for hint in types:
        kind = getattr(hint, "__origin__", type(hint))
        if kind is Literal:
            words += map(str, get_args(hint))
        elif kind in (Union, UnionType):
            words.append(allowed_values(get_args(hint)))
        elif hint is not Any:
            other = "a list" if kind is list else "a class"
            words.append(_IN_WORDS.get(hint, _IN_WORDS.get(kind, other)))
    return " or ".join(dict.fromkeys(filter(None, words)))
