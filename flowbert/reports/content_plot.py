"""A plot of the page beside those of the analysis: what it draws, and how."""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from flowbert.analysis import Plot
from flowbert.reports.content import PageContent


class ContentPlot(NamedTuple):
    """A plot of results, or of what was logged.

    Args:
        section: Section of the page.
        frame: Makes its frame; empty where there is nothing to draw.
        plot: How the frame is drawn.
    """

    section: str
    frame: Callable[[PageContent], pd.DataFrame]
    plot: Plot
