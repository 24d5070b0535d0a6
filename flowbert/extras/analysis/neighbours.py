"""The nearest neighbours of a few sentences under every method, and their tables."""

import pandas as pd

from flowbert.extras.analysis.isotropy import nearest_neighbours
from flowbert.extras.analysis.measure import MEASURES, RAW, Measure, Sample

NEAREST = 5
SHOWN = 30  # sentences


@MEASURES.register("neighbours")
class Neighbours(Measure):
    """A row per sentence, method and rank, from 1.

    neighbour is the sentence of this rank, cosine its cosine with the first one, moved whether it
    is not a neighbour under raw.
    """

    section = "Nearest neighbours"
    note = "By cosine, among the sampled sentences; new: not a neighbour under raw."

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The five nearest neighbours by cosine of the first 30 sentences."""
        sentences, nearest = sample.sentences, {}
        for method, x in sample.vectors.items():
            nearest[method] = nearest_neighbours(x, NEAREST)
        records = []
        for i, sentence in enumerate(sentences[:SHOWN]):
            for method, (distances, neighbours) in nearest.items():
                found = zip(neighbours[i], distances[i], strict=True)
                for rank, (j, distance) in enumerate(found, start=1):
                    moved = RAW in nearest and j not in nearest[RAW][1][i]
                    cosine = round(1 - float(distance), 4)
                    records.append(
                        (sentence, method, rank, sentences[j], cosine, moved)
                    )
        columns = ["sentence", "method", "rank", "neighbour", "cosine", "moved"]
        return pd.DataFrame(records, columns=columns)
