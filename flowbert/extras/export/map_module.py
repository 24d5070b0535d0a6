"""A map that is not affine as a module of sentence-transformers."""

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from flowbert.maps import Map, load_map, save_map

FILE = "map.safetensors"


class MapModule(nn.Module):
    """A fitted map behind the pooling; it has no parameters to train.

    Args:
        map: The map.
    """

    def __init__(self, map: Map) -> None:
        super().__init__()
        self.map = map

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace ``sentence_embedding``, ``(B, D)``, by the mapped rows, ``(B, k)``."""
        mapped: Tensor = self.map.transform(features["sentence_embedding"])
        return features | {"sentence_embedding": mapped}

    def get_embedding_dimension(self) -> int:
        """Size k of a mapped row."""
        return int(self.map.transform(torch.zeros(1, self.map.n_features_in_)).shape[1])

    def save(self, output_path: str, **options: Any) -> None:
        """Write the map into a folder."""
        save_map(self.map, Path(output_path) / FILE)

    @classmethod
    def load(cls, input_path: str) -> Self:
        """Read the map from a folder."""
        return cls(load_map(Path(input_path) / FILE))
