"""Several encoders, or readings of one, as one encoder, with a map for each."""

from flowbert.extras.views.views_encoder import ViewsEncoder
from flowbert.extras.views.views_map import ViewsMap

__all__ = ["ViewsEncoder", "ViewsMap"]
