"""Several readings of one network as one encoder, whose vectors are concatenated."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from flowbert.arrays import Floats
from flowbert.encoders.base import Embedder
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.passes import encode_together
from flowbert.encoders.reading import Reading
from flowbert.errors import UserError, choices

_VIEW_OPTIONS = [field.name for field in fields(Reading)]


class ViewsEncoder(Embedder, nn.Module):
    """Vectors of V views of a network, side by side, such as two layers of a decoder.

    The map ``views`` fits a map for each view. Views with the same template are computed in one
    pass.

    Args:
        path: Folder, hub name or run folder of a transformer.
        views: For each view a mapping with ``layers``, ``pooling``, ``max_length``, ``template``,
            ``sink_token``, as in :class:`SentenceEncoder`; what is missing is as in the folder.
        revision: Commit, branch or tag on the hub.
        max_length: Tokens after which a sentence is cut.
        dtype: Precision of the computation.

    Attributes:
        views: An encoder for each view.

    Raises:
        UserError: If there is no view, an option is unknown, or a pooling counts the tokens of a
            corpus.

    Example:
        >>> views = [{"layers": 0}, {"layers": "last", "pooling": "cls"}]
        >>> ViewsEncoder("builtin-sample", views=views).encode(["a dog runs"]).shape
        (1, 256)
    """

    def __init__(
        self,
        path: str | Path = "builtin-sample",
        *,
        views: Sequence[Mapping[str, Any]],
        revision: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        if not views:
            raise UserError(argument="views", received=views, expected="at least one")
        chosen = [_checked(view) for view in views]
        usual = SentenceEncoder(
            path, revision=revision, max_length=max_length, dtype=dtype
        )
        variants: list[Any] = [usual.read(**view) for view in chosen]
        self.views: Any = nn.ModuleList(variants)
        self.path = usual.path
        self.dim = sum(view.dim for view in variants)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.views[0].device
        return device

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Vectors of a list of N sentences: ``(N, V D)``, float32."""
        passes: dict[str, list[int]] = {}
        for number, view in enumerate(self.views):
            passes.setdefault(view.backbone_key, []).append(number)
        vectors: dict[int, Floats] = {}
        for numbers in passes.values():
            variants: list[Any] = [self.views[number] for number in numbers]
            read = encode_together(variants, sentences)
            vectors |= zip(numbers, read, strict=True)
        return np.concatenate([vectors[number] for number in sorted(vectors)], axis=1)

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again."""
        first = self.views[0].describe()
        return {
            **{
                name: first[name]
                for name in ("path", "revision", "max_length", "dtype")
            },
            "views": [view.reading.as_json() for view in self.views],
        }

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling, of each view in order."""
        columns = [view.columns() for view in self.views]
        joined = {
            name: " | ".join(column[name] for column in columns) for name in columns[0]
        }
        # Most views have one template, or none.
        encoders = dict.fromkeys(column["encoder"] for column in columns)
        return joined | {"encoder": " | ".join(encoders)}

    @property
    def identity(self) -> dict[str, Any]:
        """Digests and settings of the views."""
        return {"views": [view.identity for view in self.views]}

    @property
    def backbone_key(self) -> str:
        """No two share a pass."""
        return str(id(self))


def _checked(view: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a view."""
    if not isinstance(view, Mapping):
        raise UserError(
            argument="views", received=view, expected="mappings, such as {layers: 1}"
        )
    for name in view:
        if name not in _VIEW_OPTIONS:
            raise UserError(
                f"received {name!r}; expected {choices(_VIEW_OPTIONS, name)}",
                argument="views",
            )
    return dict(view)
