"""How to interpret a cosine: percentiles of the cosines of random pairs of a corpus."""

from typing import Any, NamedTuple, Self

import numpy as np

from flowbert.arrays import Floats
from flowbert.errors import UserError
from flowbert.maps.precision import Output, normalize
from flowbert.seeding import Stream

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
"""Percentiles that tables show."""

SAMPLED_ROWS = 16384
"""Rows of a corpus among which pairs are drawn."""

_DRAWN_PAIRS = 100_000  # 100 of them beyond the 99.9th percentile
_BLOCKS = 20  # of pairs, in memory one by one
# Steps of 0.1, and of 0.01 from 99.8 on: as fine as so many pairs resolve.
_LEVELS = np.concatenate([np.arange(998) / 10, np.arange(9980, 10001) / 100])
_EQUAL_WITHIN = 1e-6  # of a cosine in float32: nearer ones are equal
_BITS = ("binary", "ubinary")


class RandomPairs(NamedTuple):
    r"""Distribution of the cosines of random pairs of different vectors.

    Args:
        quantiles: Cosines at the percentiles 0 to 100, in steps of 0.1, and of 0.01 above 99.8.
        pairs: Number of pairs.
        effective_dim: :math:`D_{\mathrm{eff}} = 1 / \overline{c^2}`, c the cosines. It is the
            participation ratio of the second moment of the unit-length vectors: D if their
            directions are uniform, 1 if they are all equal. Cosines of a Gaussian around 0 are
            about :math:`N(0, 1 / D_{\mathrm{eff}})`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(400, 64))
        >>> pairs = RandomPairs.of(x)
        >>> round(pairs.effective_dim), round(pairs.percentile(0.0))
        (64, 50)
    """

    quantiles: Floats
    pairs: int
    effective_dim: float

    @classmethod
    def of(cls, vectors: Floats, seed: int = 0) -> Self:
        """All pairs of few vectors ``(N, D)``, or 100,000 drawn ones.

        Raises:
            UserError: If there are fewer than two vectors.
        """
        number = len(vectors)
        if number < 2:
            raise UserError(
                f"received {number} distinct sentences; expected 2 or more",
                argument="sentences",
            )
        unit = normalize(np.asarray(vectors, dtype=np.float32))
        if number * (number - 1) // 2 <= _DRAWN_PAIRS:
            cosines = (unit @ unit.T)[np.triu_indices(number, 1)]
        else:
            rng = Stream(seed, "pairs").rng()
            first = rng.integers(number, size=_DRAWN_PAIRS)
            second = (first + rng.integers(1, number, size=_DRAWN_PAIRS)) % number
            blocks = (np.array_split(each, _BLOCKS) for each in (first, second))
            parts = zip(*blocks, strict=True)
            cosines = np.concatenate(
                [(unit[i] * unit[j]).sum(axis=1) for i, j in parts]
            )
        cosines = cosines.astype(np.float64)
        quantiles = np.quantile(cosines, _LEVELS / 100)
        square = max(float(np.mean(cosines**2)), np.finfo(np.float64).tiny)
        return cls(quantiles, len(cosines), 1 / square)

    def percentile(self, cosines: Any) -> Any:
        """Percent of random pairs with a lower cosine, half of the equal ones counted: ``(N,)``.

        Args:
            cosines: A number, or an array of any shape, which the result has, too.
        """
        values = np.asarray(cosines, dtype=np.float64)
        below, above = (
            np.interp(values + shift, self.quantiles, _LEVELS)
            for shift in (-_EQUAL_WITHIN, _EQUAL_WITHIN)
        )
        percent = (below + above) / 2
        return float(percent) if values.ndim == 0 else percent

    def cosine(self, percentile: float) -> float:
        """The cosine at a percentile."""
        return float(np.interp(percentile, _LEVELS, self.quantiles))

    def standard_error(self, percentile: float = PERCENTILES[-1]) -> float:
        """Standard error of the cosine at a percentile, from the number of pairs.

        Half the distance of the cosines one standard error of the percentile below and above,
        as of independent pairs.

        References:
            Confidence Intervals for Medians and Other Position Measures (Woodruff, 1952).
            https://doi.org/10.1080/01621459.1952.10483443
        """
        error = float(np.sqrt(percentile * (100 - percentile) / self.pairs))
        return (self.cosine(percentile + error) - self.cosine(percentile - error)) / 2

    def row(self) -> dict[str, float]:
        """The cosines at :data:`PERCENTILES`, the error of the last, the effective dimension."""
        shown = {
            f"p{percentile:g}": self.cosine(percentile) for percentile in PERCENTILES
        }
        error = {"error": self.standard_error(), "effective_dim": self.effective_dim}
        return shown | error


class Cosines(NamedTuple):
    """Cosines of random pairs of a corpus before and after a map.

    Args:
        before: Cosines of the encoder's vectors.
        after: Cosines of the model's vectors.
        truncate_dim: First dimensions of the model's vectors that were compared; None for all.
        bits: Whether the signs of the vectors were compared, as with the precision ``binary``.
    """

    before: RandomPairs
    after: RandomPairs
    truncate_dim: int | None = None
    bits: bool = False

    @classmethod
    def of(
        cls, rows: Floats, mapped: Floats, output: Output | None = None, seed: int = 0
    ) -> Self:
        """The cosines of vectors before and after a map.

        Equal rows count once. Normalization does not change a cosine; int8 and uint8 change it by
        less than its standard error.

        Args:
            rows: Vectors of the encoder, ``(N, D)``.
            mapped: The same after the map, ``(N, k)``.
            output: Post-processing of the mapped vectors, if any.
            seed: Seed of the pairs.

        Raises:
            UserError: If fewer than two rows are different, or the output is not allowed.
        """
        output = output or Output()
        output.check(mapped.shape[1])
        places = {row.tobytes(): place for place, row in enumerate(rows)}
        distinct = sorted(places.values())
        bits = output.precision in _BITS
        after = mapped[distinct, : output.truncate_dim]
        if bits:
            after = np.where(after > 0, np.float32(1), np.float32(-1))
        before = RandomPairs.of(rows[distinct], seed)
        return cls(before, RandomPairs.of(after, seed), output.truncate_dim, bits)

    def check_output(self, output: Output, dim: int) -> None:
        """Check that these are cosines of vectors with a given post-processing.

        Args:
            output: Post-processing of the vectors.
            dim: Size of the vectors before.

        Raises:
            UserError: If they are those of another one.
        """
        output.check(dim)
        received = _compared(output.truncate_dim or dim, output.precision in _BITS)
        known = _compared(self.truncate_dim or dim, self.bits)
        if received != known:
            raise UserError(
                f"received cosines of {received}, but the model has those of {known}; call "
                "estimate_cosines with the same options first",
                argument="cosines",
            )


def _compared(dim: int, bits: bool) -> str:
    return f"{dim} {'bits' if bits else 'dimensions'}"
