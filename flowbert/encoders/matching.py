"""Whether fitted parameters belong to the encoder at hand."""

from collections.abc import Mapping
from typing import Any

from flowbert.errors import UserError


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
        parts = "; ".join(f"{name}: {saved.get(name)!r} there, {here[name]!r} here" for name in differing)
        raise UserError(f"the {what} belongs to another encoder ({parts}); allowed: the encoder it was fitted on")
