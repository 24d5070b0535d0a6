"""What a cosine is worth: percentiles of the cosines of random pairs of sentences."""

from typing import ClassVar

import pandas as pd

from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.analysis.table import Table, number_table
from flowbert.maps import RandomPairs


@MEASURES.register("random_pairs")
class RandomPairCosines(Measure):
    """A row per method: cosines of random pairs at some percentiles, see :class:`RandomPairs`.

    error is the standard error of the 99.9th percentile, effective_dim D_eff = 1 / mean(cosine²).
    """

    columns: ClassVar = {
        "method": str,
        **dict.fromkeys(
            ("p50", "p95", "p99", "p99.9", "error", "effective_dim"), float
        ),
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The percentiles of every method."""
        return by_method(
            sample.vectors,
            lambda x: [RandomPairs.of(x.cpu().numpy(), sample.seed).row()],
        )

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """The whole frame."""
        return [number_table("Cosines of random pairs, by percentile", frame)]
