"""Rows of results for tests."""

import math

import pandas as pd

from flowbert.experiments.intervals import GAIN, RESULT_COLUMNS

PICTURES = [
    "plane",
    "training",
    "band_cosines",
    "spectra",
    "sentences",
    "words",
    "layers",
]
TABLES = ["neighbours", "isotropy", "bits", "random_pairs", "buckets"]


def row(method, task, metric, aggregation, value, **columns):
    """One row; an interval of 0.1 around the value unless given."""
    text = dict.fromkeys(RESULT_COLUMNS, "") | {
        "encoder": "bert",
        "layers": "-1",
        "pooling": "mean",
        "role": "reference" if method == "raw" else "method",
        "corpus": "none" if method == "raw" else "target",
        "seed": None,
        "split": "test",
        "low": value - 0.05,
        "high": value + 0.05,
        **dict.fromkeys(["std", *GAIN], math.nan),
        "pairs": 100,
        "supervised": False,
    }
    text |= {"method": method, "task": task, "metric": metric}
    return text | {"aggregation": aggregation, "value": value, **columns}


def sts_rows(method, task, value=0.5, **columns):
    """Spearman under all aggregations, and the geometry."""
    names = ("all", "mean", "wmean")
    rows = [row(method, task, "spearman", name, value, **columns) for name in names]
    columns |= {"low": math.nan, "high": math.nan}
    for number, metric in enumerate(("alignment", "uniformity", "mean_cosine")):
        rows.append(row(method, task, metric, "all", value - number, **columns))
    return rows


def results(*groups):
    """A frame of results."""
    return pd.DataFrame(
        [item for group in groups for item in group], columns=list(RESULT_COLUMNS)
    )
