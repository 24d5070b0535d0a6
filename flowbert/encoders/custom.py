"""Any object with ``encode(sentences)``, or a function, as an encoder."""

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from flowbert.arrays import Floats
from flowbert.errors import UserError


class CustomEncoder:
    """Vectors of an object or a function, such as the embeddings of an API.

    Only vectors of an object with an attribute ``identity`` are cached in files and reused.

    Args:
        source: A function from a list of N sentences to vectors ``(N, D)``, as a list, an array or
            a tensor, or an object whose method ``encode`` is one. Its optional attributes are
            ``name`` in tables, ``dim`` (D; otherwise one sentence is encoded for it), and
            ``identity``, JSON values that change with the vectors.

    Attributes:
        path: Its name.
        is_on_disk: False: no folder can be opened in its place.
        is_cached: Whether its vectors are cached in files.

    Raises:
        UserError: If it is neither.

    Example:
        >>> lengths = CustomEncoder(lambda texts: [[len(text), 1] for text in texts])
        >>> lengths.encode(["a dog", "a"]).tolist()
        [[5.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, source: Any) -> None:
        self._embed = getattr(source, "encode", source)
        if not callable(self._embed):
            raise UserError(
                argument="encoder",
                received=source,
                expected="a path, EncoderOptions, a function, or an object with encode",
            )
        self._source = source
        name = getattr(source, "name", None) or getattr(source, "__name__", None)
        self.path = str(name or type(source).__name__)
        self.is_on_disk = False
        self.is_cached = hasattr(source, "identity")
        self._token = secrets.token_hex(16)

    @cached_property
    def dim(self) -> int:
        """Size D of a vector."""
        known = getattr(self._source, "dim", None)
        return int(known or self.encode(["size"]).shape[1])

    @property
    def identity(self) -> dict[str, Any]:
        """That of the object; otherwise another one for each object."""
        return {"custom": getattr(self._source, "identity", self._token)}

    @property
    def backbone_key(self) -> str:
        """No other encoder shares its pass."""
        return f"custom {self.path} {self.identity}"

    def encode(self, sentences: Sequence[str]) -> Floats:
        """Vectors ``(N, D)`` of N sentences, float32.

        Raises:
            UserError: If there is not a vector of one size for each sentence.
        """
        vectors = self._embed(list(sentences))
        if isinstance(vectors, torch.Tensor):
            vectors = vectors.detach().cpu().float()
        try:
            rows: Floats = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError):  # of several sizes, or no numbers
            rows = np.empty(0, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(sentences):
            raise UserError(
                f"{self.path}: received {type(vectors).__name__} for {len(sentences)} sentences; "
                "expected a vector for each, all of one size",
                argument="encoder",
            )
        return rows

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"path": self.path}

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        return {"encoder": self.path, "layers": "own", "pooling": "own"}
