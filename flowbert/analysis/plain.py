"""Named tuples and data classes as JSON values, and back by their type hints."""

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def to_plain(value: Any) -> Any:
    """JSON values of numbers, texts, lists, mappings and named tuples of these; a number that is not finite is None.

    Example:
        >>> to_plain({3: (1.5, math.nan)})
        {'3': [1.5, None]}
    """
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(kind: Any, value: Any) -> Any:
    """What has the type ``kind`` and became ``value`` in :func:`to_plain`; None in a number's place is NaN.

    Example:
        >>> from_plain(dict[int, list[float]], {"3": [1.5, None]})
        {3: [1.5, nan]}
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is UnionType:
        (inner,) = (each for each in arguments if each is not NoneType)
        return None if value is None else from_plain(inner, value)
    if origin is list:
        return [from_plain(arguments[0], each) for each in value]
    if not isinstance(value, Mapping) and (origin is not None or hasattr(kind, "__annotations__")):
        raise TypeError(f"received {type(value).__name__}; allowed: a mapping")
    if origin is not None:
        key, item = arguments
        return {key(name): from_plain(item, each) for name, each in value.items()}
    if hasattr(kind, "_fields") or hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        return kind(**{name: from_plain(hints.get(name, Any), each) for name, each in value.items()})
    return math.nan if kind is float and value is None else kind(value)
