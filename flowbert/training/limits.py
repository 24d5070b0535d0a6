"""What the numbers of a training run may be, in one table for all methods and their data."""

import math
from collections.abc import Callable
from typing import Any

from flowbert.errors import UserError

_Limit = tuple[Callable[[Any], bool], str]
_POSITIVE: _Limit = (lambda value: value > 0, "above 0")
_NOT_NEGATIVE: _Limit = (lambda value: value >= 0, "0 or more")
_SHARE: _Limit = (lambda value: 0 < value < 1, "above 0 and below 1")
_COUNT: _Limit = (lambda value: value >= 1, "at least 1")
_TWO: _Limit = (lambda value: value >= 2, "at least 2")

LIMITS: dict[str, _Limit] = {
    "batch_size": _COUNT,
    "chunk_size": (lambda value: value >= 1, "1 or more sentences, or null for no caching"),
    "cosreg_weight": _NOT_NEGATIVE,
    "dropout": (lambda value: 0 <= value < 1, "0 to below 1, or null for the encoder's own"),
    "held_out": (lambda value: 0 <= value <= 0.5, "0 to 0.5, a share of the distinct sentences"),
    "hidden_size": _COUNT,
    "intermediate_size": _COUNT,
    "learning_rate": _POSITIVE,
    "margin": _POSITIVE,
    "mask_fraction": _SHARE,
    "max_length": _COUNT,
    "max_sentences": _TWO,
    "mlm_weight": _NOT_NEGATIVE,
    "noise": (lambda value: value >= 0, "0 or more, a share of the mean variance"),
    "num_attention_heads": _COUNT,
    "num_hidden_layers": _COUNT,
    "pool": _COUNT,
    "positive_rate": _SHARE,
    "seed": (lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295"),
    "start_size": _TWO,
    "vocab_size": _COUNT,
    "warmup": (lambda value: 0 <= value < 1, "0 to below 1, a share of all steps"),
    "weight_decay": _NOT_NEGATIVE,
    "workers": _NOT_NEGATIVE,
}


def check_limits(**values: Any) -> None:
    """Check numbers by their names; None stands for a default, and names without a limit do not count.

    Raises:
        UserError: If one is outside what is allowed.

    Example:
        >>> check_limits(warmup=0.1, dropout=None)
        >>> check_limits(warmup=1.0)
        Traceback (most recent call last):
        flowbert.errors.UserError: warmup: received 1.0; allowed: 0 to below 1, a share of all steps
    """
    for name, value in values.items():
        allows, allowed = LIMITS.get(name, (lambda _: True, ""))
        infinite = name in LIMITS and isinstance(value, float) and not math.isfinite(value)
        if value is not None and (infinite or not allows(value)):
            raise UserError(f"{name}: received {value}; allowed: {allowed}{', finite' if infinite else ''}")
