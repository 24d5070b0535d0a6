"""What a run on vectors from elsewhere has no use for: sentences, and how an encoder reads them."""

from dataclasses import fields, is_dataclass
from typing import Any

from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings

_DEFAULTS: dict[str, Any] = {
    **{field.name: field.default for field in fields(EncoderSettings)},
    "encoder": "builtin-sample",
    "nli": "hub",
    "corpus": "target",
    "store": "disk",
    "recommended": False,
}


def refuse_with_vectors(**given: Any) -> None:
    """Refuse options about text and its encoder that were set.

    Args:
        **given: Values by name; an encoder's settings may be a mapping, or :class:`EncoderSettings`.

    Raises:
        UserError: If one is not what it is by default.
    """
    for name, value in given.items():
        if is_dataclass(value) and not isinstance(value, type):
            refuse_with_vectors(**vars(value))
        elif isinstance(value, dict):
            refuse_with_vectors(**value)
        elif value not in (None, _DEFAULTS.get(name)):
            raise UserError(f"{name}: received {value!r}; allowed with vectors: {_DEFAULTS.get(name) or 'nothing'}")
