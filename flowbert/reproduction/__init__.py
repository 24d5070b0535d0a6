"""Published figures with their ambiguities, and their runs here."""

from flowbert.reproduction.published import published_figures, published_row, published_rows
from flowbert.reproduction.run import reproduce

__all__ = ["published_figures", "published_row", "published_rows", "reproduce"]
