"""Whether fitted parameters belong to the encoder at hand."""

from collections.abc import Mapping
from typing import Any

from flowbert.errors import UserError

# What a digest in the identity was made from, in the encoder's folder.
_FILES = {
    "weights": "model.safetensors",
    "config": "config.json",
    "tokenizer": "tokenizer.json or another file of the tokenizer",
}


def check_same_encoder(saved: Mapping[str, Any], here: Mapping[str, Any], what: str) -> None:
    """Compare two encoder identities (:meth:`SentenceEncoder.key`).

    Args:
        saved: Identity that the parameters were fitted with; entries that ``here`` lacks, such as a path, do not count.
        here: Identity of the encoder at hand.
        what: What holds the parameters, for the message: ``"checkpoint runs/x/last.ckpt"``.

    Raises:
        UserError: If they differ; the message lists how.
    """
    # The weights tell; the revision is only where they came from.
    differing = [name for name in here if name != "revision" and saved.get(name) != here[name]]
    if differing:
        parts = "; ".join(_difference(name, saved.get(name), here[name]) for name in differing)
        raise UserError(f"the {what} belongs to another encoder ({parts}); allowed: the encoder it was fitted on")


def _difference(name: str, saved: object, here: object) -> str:
    file = f" ({_FILES[name]} differs)" if name in _FILES else ""
    return f"{name}: {saved!r} there, {here!r} here{file}"
