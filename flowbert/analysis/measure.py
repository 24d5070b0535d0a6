"""What a measure is, and the registry that the analysis and its page loop over."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pandas as pd
from torch import Tensor

from flowbert.analysis.drawing import Plot
from flowbert.analysis.sample import Sample
from flowbert.analysis.table import Table
from flowbert.registry import Registry


class Measure(ABC):
    """A measure of embeddings: its frame, and the tables and plots that show it.

    The parameters of the constructor are the options of its text, as in ``layers:tokens=500``.

    Attributes:
        columns: Columns of the frame and their types: str, int, float or bool.
        section: Section of the page.
        note: How to read the tables, above them.
        plots: Plots by the names of their files.

    Example:
        >>> class MeanNorm(Measure):
        ...     columns = {"method": str, "mean_norm": float}
        ...     def frame(self, sample: Sample) -> pd.DataFrame:
        ...         return by_method(
        ...             sample.vectors, lambda x: {"mean_norm": [float(x.norm(dim=1).mean())]}
        ...         )
    """

    columns: ClassVar[Mapping[str, type]] = {}
    section: ClassVar[str] = "Embedding space"
    note: ClassVar[str] = ""
    plots: ClassVar[Mapping[str, Plot]] = {}

    @abstractmethod
    def frame(self, sample: Sample) -> pd.DataFrame:
        """What is measured, in long form; empty where the sample has nothing to measure.

        Args:
            sample: Sentences with their vectors, and further inputs.

        Returns:
            A frame with at least the columns :attr:`columns`.
        """

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:  # noqa: ARG003
        """Tables of the page, none unless a subclass makes some.

        Args:
            frame: The measure's own frame.
        """
        return []


MEASURES: Registry[type[Measure]] = Registry("measure", base=Measure)
"""Measures by name, in the order of the page."""


def by_method(
    vectors: Mapping[str, Tensor], measure: Callable[[Tensor], Any]
) -> pd.DataFrame:
    """Measure the vectors of each method; the column ``method`` says whose rows are whose.

    Args:
        vectors: Vectors by method, ``(N, D)``.
        measure: From vectors to a frame, or to columns of equal length by name.

    Example:
        >>> import torch
        >>> by_method({"raw": torch.zeros(5, 2)}, lambda x: {"rows": [len(x)]})
           rows method
        0     5    raw
    """
    parts = [
        pd.DataFrame(measure(rows)).assign(method=method)
        for method, rows in vectors.items()
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
