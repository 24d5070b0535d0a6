"""The container of an analysis: one data frame for each table or picture."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd

from flowbert.errors import UserError
from flowbert.io import read_json, write_json

COLUMNS = {
    "measures": "method effective_rank participation_ratio isoscore partition_isotropy mean_cosine "
    "uniformity hubness",
    "spectra": "method direction eigenvalue share",
    "norms": "method mean_norm length_correlation frequency_correlation",
    "sentences": "method sentence length frequency unit norm x y",
    "latents": "method mean std skewness excess_kurtosis squared_norm norm_distance",
    "latent_norms": "method dim norm_from norm_to vectors",
    "latent_moments": "method dimension skewness excess_kurtosis",
    "bits": "density bits",
    "neighbours": "sentence method rank neighbour moved",
    "bands": "task method gold_from gold_to pairs lower_quartile median upper_quartile",
    "band_cosines": "task method gold_from gold_to cosine_from cosine_to pairs",
    "buckets": "ranks norm distance_3 distance_5 distance_7 product_3 product_5 product_7",
    "words": "ranks rank x y",
    "layers": "layer mean_cosine",
}
"""Columns of each frame, separated by spaces; with the types below the schema of a file."""

TYPES = {
    **dict.fromkeys(
        (
            "density",
            "layer",
            "method",
            "neighbour",
            "ranks",
            "sentence",
            "task",
            "unit",
        ),
        "str",
    ),
    **dict.fromkeys(
        ("dim", "dimension", "direction", "length", "pairs", "rank", "vectors"), "int64"
    ),
    "moved": "bool",
}
"""Types of columns; the others are float64."""


class Analysis:
    """What was measured of the vectors of some sentences; a frame that was not measured is empty.

    Args:
        setting: JSON values: encoder, layers, pooling and corpus as in a row of results, ``fitted``
            (sentences that the maps were fitted on), ``sentences`` (those measured), ``map``
            (``pca`` or ``umap``).
        **frames: Any of the attributes.

    Attributes:
        measures: A row per method. effective_rank (1 to D), participation_ratio (1 to D), isoscore
            (0 to 1), partition_isotropy (0 to 1), mean_cosine (-1 to 1), uniformity (lower is more
            uniform), hubness (0 without hubs).
        spectra: A row per method and direction (from 1, by falling variance): eigenvalue of the
            covariance, and its share of their sum.
        norms: A row per method: mean_norm, and Spearman of the norms with the sentences' lengths
            (length_correlation) and the frequencies of their words (frequency_correlation).
        sentences: A row per method and sentence, some hundred sentences to draw: sentence, length
            (in the unit), frequency (mean log10 occurrences of its words or tokens), unit
            (``words`` or ``tokens``), norm of its vector, x and y on the map of all sentences.
        latents: A row per method but raw, vectors against a standard normal of size D: mean (0),
            std (1), skewness (0), excess_kurtosis (0), squared_norm (D), norm_distance (0).
        latent_norms: A row per method but raw and bin of a histogram: dim (D), norm_from and
            norm_to (divided by the root of D), vectors (their number).
        latent_moments: A row per method but raw and dimension, at most 256, evenly chosen:
            dimension (from 0), skewness, excess_kurtosis.
        bits: A row per density: bits per dimension of held-out sentences.
        neighbours: A row per sentence, method and rank (from 1): neighbour, and moved (not among
            the neighbours under raw).
        bands: A row per task, method and band of the gold score (gold_from to gold_to): pairs
            (their number) and the quartiles of their cosines, NaN without pairs.
        band_cosines: A row per task, method, band and bin of a histogram: cosine_from, cosine_to,
            pairs (their number).
        buckets: A row per bucket of frequency ranks (``0 to 99``) of input embeddings: mean norm,
            and mean distance to and dot product with the 3, 5 and 7 nearest neighbours.
        words: A row per drawn token: ranks (its bucket), rank (from 0, the most frequent), x and y
            on the first two singular directions.
        layers: A row per layer: mean cosine of the input embeddings of distinct tokens (``input``)
            and of random tokens in sentences at each hidden state (``0``, the embedding layer, to
            the last block).

    Example:
        >>> bits = pd.DataFrame({"density": ["flow"], "bits": [-2.5]})
        >>> Analysis({"encoder": "bert"}, bits=bits).bits
          density  bits
        0    flow  -2.5
    """

    measures: pd.DataFrame
    spectra: pd.DataFrame
    norms: pd.DataFrame
    sentences: pd.DataFrame
    latents: pd.DataFrame
    latent_norms: pd.DataFrame
    latent_moments: pd.DataFrame
    bits: pd.DataFrame
    neighbours: pd.DataFrame
    bands: pd.DataFrame
    band_cosines: pd.DataFrame
    buckets: pd.DataFrame
    words: pd.DataFrame
    layers: pd.DataFrame

    def __init__(self, setting: Mapping[str, Any], **frames: pd.DataFrame) -> None:
        self.setting = dict(setting)
        for name, names in COLUMNS.items():
            columns = names.split()
            frame = frames.pop(name, pd.DataFrame(columns=columns))
            types = {column: TYPES.get(column, "float64") for column in columns}
            setattr(self, name, frame[columns].astype(types))
        if frames:
            raise TypeError(
                f"frames: received {list(frames)}; expected {list(COLUMNS)}"
            )

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames that are not empty, by name."""
        frames = {name: getattr(self, name) for name in COLUMNS}
        return {name: frame for name, frame in frames.items() if len(frame)}

    def to_json(self, path: str | Path) -> None:
        """Write a file that :meth:`from_json` reads; a number that is not finite becomes null."""
        content: dict[str, Any] = {"setting": self.setting}
        for name, frame in self.frames.items():
            finite = frame.replace([math.inf, -math.inf], math.nan)
            values = finite.astype(object).where(finite.notna(), None)
            content[name] = values.to_dict("list")
        write_json(path, content)

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a file of :meth:`to_json`.

        Raises:
            UserError: If the file is missing, damaged, or no analysis.
        """
        schema = {"setting": dict, **{name: (dict, {}) for name in COLUMNS}}
        content = read_json(path, schema)
        try:
            frames = {
                name: pd.DataFrame(content[name]) for name in COLUMNS if content[name]
            }
            return cls(content["setting"], **frames)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(f"{path}: damaged, or no analysis ({error})") from error
