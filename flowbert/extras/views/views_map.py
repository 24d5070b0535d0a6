"""A map for each view of an encoder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from flowbert.errors import UserError
from flowbert.maps.base import MAPS, LabelledPairs, Map
from flowbert.maps.chain import first_reason, make_map
from flowbert.maps.state import join_states, pack, state_of_part, unpack
from flowbert.numbers import parse_number

_COLUMNS = ("n_features_in_", "feature_names_in_")


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
            UserError: If one is unknown, draws random numbers or learns from labels.
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
        """The weights of the fitted views."""
        return self._factors(len(self.fitted_))

    def _factors(self, count: int) -> list[float]:
        """Weights of the views.

        Raises:
            UserError: If there are not so many positive numbers.
        """
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
        """Check the parameters for rows of size ``dim``; the size of the mapped rows."""
        made = self._make()
        self._factors(len(made))
        sizes = [len(part) for part in torch.arange(dim).tensor_split(len(made))]
        self.require("maps", min(sizes) > 0, f"at most {dim} maps")
        return sum(
            each.output_dim(size) for each, size in zip(made, sizes, strict=True)
        )

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self."""
        rows = torch.cat(list(self._row_blocks(X)))
        self.output_dim(rows.shape[1])
        blocks = zip(self._make(), self._split(rows), strict=True)
        self.fitted_ = [each.fit(block) for each, block in blocks]
        return self

    def _split(self, rows: Tensor) -> tuple[Tensor, ...]:
        return rows.tensor_split(len(self.maps.split("|")), dim=1)

    def _apply(self, rows: Tensor) -> Tensor:
        mapped = [
            factor * torch.nn.functional.normalize(each.transform(block))
            for each, factor, block in self._views(self._split(rows))
        ]
        return torch.cat(mapped, dim=1)

    def _invert(self, rows: Tensor) -> Tensor:
        # The lengths before normalization are lost.
        sizes = [each._n_features_out for each in self.fitted_]
        blocks = [
            each.inverse_transform(block / factor)
            for each, factor, block in self._views(torch.split(rows, sizes, dim=1))
        ]
        return torch.cat(blocks, dim=1)

    def _views(self, blocks: Sequence[Tensor]) -> Iterator[tuple[Map, float, Tensor]]:
        """Map, weight and rows of each view."""
        return zip(self.fitted_, self.factors, blocks, strict=True)

    @property
    def _n_features_out(self) -> int:
        return sum(each._n_features_out for each in self.fitted_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def get_state(self) -> dict[str, Any]:
        """The fitted maps as tensors and plain values, by ``NUMBER.NAME``."""
        check_is_fitted(self)
        own = {name: getattr(self, name) for name in _COLUMNS if hasattr(self, name)}
        return pack(own) | join_states(self.fitted_)

    def set_state(self, state: Mapping[str, Any]) -> Self:
        """Restore what :meth:`get_state` gave. Returns self."""
        self.fitted_ = [
            each.set_state(state_of_part(state, number))
            for number, each in enumerate(self._make())
        ]
        known = {name: state[name] for name in _COLUMNS if name in state}
        for name, value in unpack(known).items():
            setattr(self, name, value)
        return self
