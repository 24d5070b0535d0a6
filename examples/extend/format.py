"""An export format: kernel and bias of whitening, as the code of BERT-whitening has them.

python train.py export runs/first --method whitening --to out --format examples.extend.format.Kernel
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.encoders import load_encoder
from flowbert.extras.export import EXPORT_FORMATS, Format
from flowbert.maps import AffineMap
from flowbert.model import Model


@EXPORT_FORMATS.register("kernel")
class Kernel(Format):
    """The encoder, and ``whitening.npz`` for y = (x + bias) kernel (Su et al., 2021)."""

    def write(self, model: Model, folder: Path) -> None:
        """Write encoder, kernel and bias."""
        if not isinstance(model.map, AffineMap):
            raise self.refused(model.map_name, "one affine map")
        model.encoder.save(folder)
        kernel, bias = model.map.weight_, -model.map.center_
        np.savez(folder / "whitening.npz", kernel=kernel, bias=bias)

    def encode(self, folder: Path, sentences: Sequence[str]) -> Any:
        """What that code computes."""
        rows = load_encoder(folder).encode(list(sentences))
        with np.load(folder / "whitening.npz", allow_pickle=False) as saved:
            return (rows + saved["bias"]) @ saved["kernel"]

    def usage(self, name: str, model: Model) -> str:
        """The formula."""
        return f'`(vectors + bias) @ kernel`, both in `numpy.load("{name}/whitening.npz")`.'
