"""Published figures with their ambiguities, and their runs here."""

from flowbert.reproduction.comparison import Comparison, Reproduction, write_reproductions
from flowbert.reproduction.published import (
    PublishedFigure,
    PublishedRow,
    published_figures,
    published_row,
    published_rows,
)
from flowbert.reproduction.run import reproduce

__all__ = [
    "Comparison",
    "PublishedFigure",
    "PublishedRow",
    "Reproduction",
    "published_figures",
    "published_row",
    "published_rows",
    "reproduce",
    "write_reproductions",
]
