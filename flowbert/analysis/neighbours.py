"""The nearest neighbours of a few sentences under every method, and their tables."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pandas as pd

from flowbert.analysis.isotropy import nearest_neighbours
from flowbert.analysis.measure import MEASURES, Measure
from flowbert.analysis.sample import RAW, Sample
from flowbert.analysis.table import Table, make_table
from flowbert.tasks.measures import Array

NEAREST = 5
SHOWN = 5  # sentences


def sentence_neighbours(
    sentences: Sequence[str], vectors: Mapping[str, Array]
) -> pd.DataFrame:
    """The five nearest neighbours by cosine of the first five sentences, under every method.

    Args:
        sentences: N sentences, N above 5.
        vectors: Their vectors by method, ``(N, D)``.

    Returns:
        The frame of :class:`Neighbours`.
    """
    nearest = {
        method: nearest_neighbours(x, NEAREST)[1] for method, x in vectors.items()
    }
    records = []
    for i, sentence in enumerate(sentences[:SHOWN]):
        for method, neighbours in nearest.items():
            for rank, j in enumerate(neighbours[i], start=1):
                moved = RAW in nearest and j not in nearest[RAW][i]
                records.append((sentence, method, rank, sentences[j], moved))
    return pd.DataFrame(
        records, columns=["sentence", "method", "rank", "neighbour", "moved"]
    )


@MEASURES.register("neighbours")
class Neighbours(Measure):
    """A row per sentence, method and rank, from 1.

    neighbour is the sentence of this rank, moved whether it is not a neighbour under raw.
    """

    section: ClassVar = "Nearest neighbours"
    note: ClassVar = "Bold: not among the neighbours under raw."

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The neighbours under every method."""
        return sentence_neighbours(sample.sentences, sample.vectors)

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """One for each sentence."""
        names = {
            "rank": "label",
            "method": "column",
            "neighbour": "text",
            "moved": "bold",
        }
        cells = frame.rename(columns=names)
        return [
            make_table(str(sentence), rows, words=True)
            for sentence, rows in cells.groupby("sentence", sort=False)
        ]
