"""The nearest neighbours of a few sentences under every method."""

import pandas as pd

from flowbert.extras.analysis.isotropy import nearest_neighbours
from flowbert.extras.analysis.sample import RAW, Sample

NEAREST = 5
MEASURED = 30  # sentences
_SHOWN = 5  # sentences on a page
_NEAREST_SHOWN = 3


def neighbours(sample: Sample) -> pd.DataFrame:
    """A row per sentence, method and rank, from 1: five neighbours of the first 30 sentences.

    neighbour is the sentence of this rank, cosine its cosine with the first one, moved whether it
    is not a neighbour under raw.
    """
    sentences = sample.sentences
    nearest = {
        x: nearest_neighbours(sample.vectors[x], NEAREST) for x in sample.vectors
    }
    records = []
    for i, sentence in enumerate(sentences[:MEASURED]):
        for method, (distances, rows) in nearest.items():
            for rank, (j, distance) in enumerate(
                zip(rows[i], distances[i], strict=True), start=1
            ):
                moved = RAW in nearest and j not in nearest[RAW][1][i]
                cosine = round(1 - float(distance), 4)
                records.append((sentence, method, rank, sentences[j], cosine, moved))
    columns = ["sentence", "method", "rank", "neighbour", "cosine", "moved"]
    return pd.DataFrame(records, columns=columns)


def tabulate_neighbours(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of three neighbours of five sentences, a column per method."""
    sentences = frame["sentence"].unique()[:_SHOWN]
    shown = frame["sentence"].isin(sentences) & frame["rank"].le(_NEAREST_SHOWN)
    rows = frame[shown]
    text = rows["cosine"].map("{:z.2f} ".format) + rows["neighbour"]
    text += rows["moved"].map({True: " (new)", False: ""})
    table = rows.assign(text=text).pivot_table(
        "text", ["sentence", "rank"], "method", "first", sort=False
    )
    return table.rename_axis(columns=None)
