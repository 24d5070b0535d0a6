"""The base class of measures, and their registry."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pandas as pd
from torch import Tensor

from flowbert.analysis.drawing import Plot
from flowbert.analysis.sample import Sample
from flowbert.analysis.table import Table, number_table
from flowbert.registry import Registry


class Measure(ABC):
    """A measure of embeddings: its frame, and the tables and plots that show it.

    The parameters of the constructor are the options of its text, as in ``layers:tokens=500``.

    Attributes:
        title: Title of the table of the whole frame; without one there is no table.
        section: Section of the page.
        note: How to read the tables, above them.
        plots: Plots by the names of their files.

    Example:
        >>> class MeanNorm(Measure):
        ...     def frame(self, sample: Sample) -> pd.DataFrame:
        ...         return by_method(
        ...             sample.vectors, lambda x: {"mean_norm": [float(x.norm(dim=1).mean())]}
        ...         )
    """

    title: ClassVar[str] = ""
    section: ClassVar[str] = "Embedding space"
    note: ClassVar[str] = ""
    plots: ClassVar[Mapping[str, Plot]] = {}

    @abstractmethod
    def frame(self, sample: Sample) -> pd.DataFrame:
        """What is measured, in long form; empty where the sample has nothing to measure.

        Args:
            sample: Sentences with their vectors, and further inputs.

        Returns:
            The frame.
        """

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """Tables of the page.

        Args:
            frame: The measure's own frame.
        """
        return [number_table(cls.title, frame)] if cls.title else []


MEASURES: Registry[type[Measure]] = Registry("measure", base=Measure)
"""Measures by name, in the order of the page."""


def by_method(
    vectors: Mapping[str, Tensor], measure: Callable[[Tensor], Any]
) -> pd.DataFrame:
    """Measure the vectors of each method; the first column of the frame is ``method``.

    Args:
        vectors: Vectors by method, ``(N, D)``.
        measure: From vectors to a frame, or to columns of equal length by name.

    Example:
        >>> import torch
        >>> by_method({"raw": torch.zeros(5, 2)}, lambda x: {"rows": [len(x)]})
          method  rows
        0    raw     5
    """
    parts = {method: pd.DataFrame(measure(x)) for method, x in vectors.items()}
    return stack(parts, ["method"])


def stack(parts: Mapping[Any, pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """Frames below each other, their keys as the first columns.

    Args:
        parts: Frames by key; a tuple is of several columns.
        names: Columns of the keys.
    """
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, names=names).reset_index(names).reset_index(drop=True)
