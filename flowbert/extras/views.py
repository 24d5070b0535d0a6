"""Several readings of one network as one encoder, and a map for each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.arrays import Floats
from flowbert.encoders.base import Embedder
from flowbert.encoders.checkpoint import load_backbone
from flowbert.encoders.encoder import SentenceEncoder, encode_counted
from flowbert.encoders.reading import Reading
from flowbert.errors import UserError
from flowbert.maps.base import MAPS, LabelledPairs, Map
from flowbert.maps.chain import first_reason, make_map
from flowbert.maps.state import join_states, state_of_part
from flowbert.numbers import parse_number

__all__ = ["ViewsEncoder", "ViewsMap"]

_VIEW_OPTIONS = {field.name for field in fields(Reading)}


class ViewsEncoder(Embedder, nn.Module):
    """Concatenated vectors of V views of a network, such as two layers of a decoder.

    The map ``views`` fits a map for each view. Views with the same template are computed in one
    pass.

    Args:
        path: Folder, hub name or run folder of a transformer.
        views: For each view a mapping with ``layers``, ``pooling``, ``max_length``, ``template``,
            ``sink_token``, as in :class:`SentenceEncoder`; missing entries come from the folder.
        revision: Commit, branch or tag on the hub.
        max_length: Number of tokens after which a sentence is cut.
        dtype: Precision of the computation.
        device_map: Devices of the modules.

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
        device_map: str | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        are_views = all(
            isinstance(view, Mapping) and view.keys() <= _VIEW_OPTIONS for view in views
        )
        if not views or not are_views:
            raise UserError(
                argument="views",
                received=views,
                expected=f"mappings with {', '.join(sorted(_VIEW_OPTIONS))}",
            )
        backbone = load_backbone(str(path), revision, dtype, device_map)
        encoders = [
            SentenceEncoder(backbone, **{"max_length": max_length, **view})
            for view in views
        ]
        self.views: Any = nn.ModuleList(encoders)
        self.path = backbone.path
        self.dim = sum(encoder.dim for encoder in encoders)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.views[0].device
        return device

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Vectors of a list of N sentences: ``(N, V D)``, float32."""
        passes: dict[str, list[Any]] = {}
        for view in self.views:
            passes.setdefault(view.backbone_key, []).append(view)
        vectors: dict[Any, Floats] = {}
        for views in passes.values():
            vectors |= zip(views, encode_counted(views, sentences), strict=True)
        return np.concatenate([vectors[view] for view in self.views], axis=1)

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again."""
        first = self.views[0].describe()
        names = ("path", "revision", "max_length", "dtype", "device_map")
        views = [view.reading.as_json() for view in self.views]
        kept = {name: first[name] for name in names if name in first}
        return kept | {"views": views}

    def columns(self) -> dict[str, str]:
        """Columns of results, of each view in order; an encoder or template of all views once."""
        columns = [view.columns() for view in self.views]
        values = {name: [column[name] for column in columns] for name in columns[0]}
        for name in ("encoder", "template", "sink_token"):
            values[name] = list(dict.fromkeys(values[name]))
        return {name: " | ".join(each) for name, each in values.items()}

    @property
    def identity(self) -> dict[str, Any]:
        """Digests and settings of the views."""
        return {"views": [view.identity for view in self.views]}


@MAPS.register("views")
class ViewsMap(Map):
    r"""A map for each of V views of equal size, :math:`x = [x_1, ..., x_V]`.

    .. math:: y = [w_1 f_1(x_1) / |f_1(x_1)|, ..., w_V f_V(x_V) / |f_V(x_V)|]

    The cosine of two rows is the mean of the cosines of their views, with weights :math:`w_i^2`.

    Args:
        maps: Texts of the maps, separated by ``|``.
        weights: Weights, separated by ``|``; None for 1 each.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
        >>> ViewsMap("whitening|centering").fit_transform(x).shape
        (100, 8)
    """

    def __init__(
        self, maps: str = "whitening|whitening", weights: str | None = None
    ) -> None:
        self.maps = maps
        self.weights = weights

    def _make(self) -> list[Map]:
        """New maps of the views.

        Raises:
            UserError: If a map is unknown, draws random numbers or learns from labels.
        """
        valid = isinstance(self.maps, str)
        self.require("maps", valid, "texts of maps, separated by |")
        made = [make_map(text, "maps") for text in self.maps.split("|")]
        for each in made:
            if each.seeded or each.supervised:
                raise UserError(
                    f"received {each.text}; expected maps in closed form, without labels",
                    argument="maps",
                )
        return made

    @property
    def factors(self) -> list[float]:
        """The weights of the views.

        Raises:
            UserError: If they are not one positive number for each map.
        """
        count = len(self.maps.split("|"))
        if self.weights is None:
            return [1.0] * count
        try:
            factors = [parse_number(part) for part in str(self.weights).split("|")]
        except ValueError:
            factors = []
        valid = len(factors) == count and all(factor > 0 for factor in factors)
        self.require("weights", valid, f"{count} positive numbers, separated by |")
        return factors

    @property
    def invalid_reason(self) -> str | None:
        """Why the fitted map is undefined, in one line; None if it is not."""
        return first_reason(self.fitted_)

    def output_dim(self, dim: int) -> int:
        """Check the parameters for rows of size ``dim``, and return the size of the mapped rows."""
        self.require("maps", len(self.factors) <= dim, f"at most {dim} maps")
        views = torch.arange(dim).tensor_split(len(self.factors))
        return sum(
            each.output_dim(len(view))
            for each, view in zip(self._make(), views, strict=True)
        )

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self."""
        rows = torch.cat(list(self._row_blocks(X)))
        self.output_dim(rows.shape[1])
        made = self._make()
        views = rows.tensor_split(len(made), dim=1)
        self.fitted_ = [each.fit(view) for each, view in zip(made, views, strict=True)]
        return self

    def _apply(self, rows: Tensor) -> Tensor:
        views = rows.tensor_split(len(self.fitted_), dim=1)
        mapped = [
            factor * torch.nn.functional.normalize(each._apply(view))
            for each, factor, view in zip(
                self.fitted_, self.factors, views, strict=True
            )
        ]
        return torch.cat(mapped, dim=1)

    def _invert(self, rows: Tensor) -> Tensor:
        # The lengths before normalization are lost.
        views = torch.split(rows, [each._n_features_out for each in self.fitted_], 1)
        inverses = [
            each.inverse_transform(view / factor)
            for each, factor, view in zip(
                self.fitted_, self.factors, views, strict=True
            )
        ]
        return torch.cat(inverses, dim=1)

    def _fitted_attributes(self) -> list[str]:
        return [name for name in super()._fitted_attributes() if name != "fitted_"]

    def get_state(self) -> dict[str, Any]:
        """The fitted maps as tensors and plain values, by ``NUMBER.NAME``."""
        return super().get_state() | join_states(self.fitted_)

    def set_state(self, state: Mapping[str, Any]) -> Self:
        """Restore a state of :meth:`get_state`. Returns self."""
        super().set_state({name: state[name] for name in state if "." not in name})
        self.fitted_ = [
            each.set_state(state_of_part(state, number))
            for number, each in enumerate(self._make())
        ]
        return self
