"""The contract of every map of embeddings: how it is named, fitted, and applied."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from flowbert.calibration.moments import Moments
from flowbert.errors import UserError
from flowbert.methods.chain import Blocks, Chain, LabelledPairs

Transform = Callable[[Tensor], Tensor]
"""From embeddings ``(N, D)`` to ``(N, k)``, on their device."""


@dataclass(frozen=True)
class FittedMap:
    """A fitted map, None for raw embeddings; why its figures mean nothing, if they do not; the steps fitted here."""

    transform: Transform | None
    flaw: str | None = None
    chain: Chain | None = None


@dataclass(frozen=True, eq=False)
class Method:
    """A map of embeddings as the tables name it: raw embeddings, a map to be fitted, or one fitted before.

    Attributes:
        name: Its name.
        build: Makes the unfitted map for a seed; None for a map that is not fitted here.
        ready: The map if it is not fitted here; None leaves the embeddings raw.
        flaw: Why the figures of a ready map mean nothing, if they do.
        fitted_on: What a ready map was fitted on, for the column ``corpus``.
        seeded: Whether the seed plays a role.
        supervised: Whether it learns from labels.
        identity: What else decides its figures, as JSON values, e.g. the digest of a file.
        check: Refuses the identity of an encoder that a ready map does not belong to.
        output_dim: Size of the vectors under a map that is fitted here, given that of the embeddings; refuses a size
            that does not fit.
    """

    name: str
    build: Callable[[int], Chain] | None = None
    ready: Transform | None = None
    flaw: str | None = None
    fitted_on: str = "none"
    seeded: bool = False
    supervised: bool = False
    identity: Any = None
    check: Callable[[Mapping[str, Any]], None] | None = None
    output_dim: Callable[[int], int] | None = None

    @property
    def shown(self) -> str:
        """Its name, with a star if it learns from labels."""
        return f"{self.name}*" if self.supervised else self.name

    def check_embeddings(self, key: Mapping[str, Any], dim: int) -> None:
        """Refuse embeddings that the map does not fit, before anything is encoded.

        Args:
            key: Identity of the encoder.
            dim: Size of its embeddings.

        Raises:
            UserError: If they do not.
        """
        if self.check is not None:
            self.check(key)
        if self.output_dim is not None:
            try:
                self.output_dim(dim)
            except UserError as error:
                raise UserError(f"method {self.name!r}: {error}") from error

    def fit(
        self,
        blocks: Blocks,
        pairs: LabelledPairs | None = None,
        seed: int | None = None,
        moments: Moments | None = None,
    ) -> FittedMap:
        """Fit on rows, going through them once per step; a map that is not fitted here is given back.

        Args:
            blocks: The rows.
            pairs: Labelled pairs, for a supervised method.
            seed: Seed of what is random.
            moments: Moments of the rows, where another map of them has found them.

        Raises:
            UserError: If the method cannot be fitted on these rows.
        """
        if self.build is None:
            return FittedMap(self.ready, self.flaw)
        fitted = self.build(seed or 0)
        try:
            fitted.fit_blocks(blocks, pairs, moments)
        except UserError:
            if fitted.flaw is None:
                raise
            # A step that saw too few sentences leaves the next ones something they cannot be fitted on.
            return FittedMap(None, fitted.flaw)
        return FittedMap(fitted.transform, fitted.flaw, fitted)
