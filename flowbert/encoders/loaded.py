"""A SentenceTransformer object as an encoder, as it is."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import Floats
from flowbert.encoders.settings import Carried


class LoadedSentenceTransformer:
    """A SentenceTransformer in memory, which encodes with its own code.

    A change of its weights or settings cannot be detected, so its vectors are cached in memory
    only, for one comparison.

    Args:
        model: The model.
    """

    lasting = False
    """Whether the identity holds beyond this process."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.path = _name(model)
        self._token = secrets.token_hex(16)
        self.dim = self.encode(["a"]).shape[1]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the name: a copy can be changed alone."""
        return vars(self) | {
            "model": Carried(self.model),
            "_token": secrets.token_hex(16),
        }

    @property
    def identity(self) -> dict[str, Any]:
        """A name unique to this object."""
        return {"kind": "SentenceTransformer object", "object": self._token}

    @property
    def pass_key(self) -> str:
        """It has a pass of its own."""
        return self._token

    def encode(self, sentences: Sequence[str]) -> Floats:
        """Embed N sentences: shape ``(N, D)``, float32."""
        vectors = self.model.encode(list(sentences), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        """Name, modules and prompt of the model."""
        return {
            "path": self.path,
            "modules": [type(module).__name__ for module in self.model],
            "prompt": self.model.default_prompt_name,
        }

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        return {"encoder": Path(self.path).name, "layers": "own", "pooling": "own"}


def is_sentence_transformer(value: Any) -> bool:
    """Whether a value is a SentenceTransformer; the library is not imported for that."""
    library = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(value, library.SentenceTransformer)


def _name(model: Any) -> str:
    """Name or folder that the model was loaded from."""
    network = getattr(model[0], "auto_model", None)
    name = getattr(network, "name_or_path", "")
    return name or "SentenceTransformer"
