"""Published figures with their ambiguities, and the grid that runs them."""

from flowbert.reproduction.published import published_figures, published_row, published_rows

__all__ = ["published_figures", "published_row", "published_rows"]
