"""Measures of word and sentence spaces: frequency, isotropy, neighbours, density."""

from flowbert.extras.analysis.drawing import draw_facets, new_axes
from flowbert.extras.analysis.frames import (
    MEASURES,
    VIEWS,
    Analysis,
    View,
    analyze_sample,
    print_analysis,
)
from flowbert.extras.analysis.sample import Sample

__all__ = [
    "MEASURES",
    "VIEWS",
    "Analysis",
    "Sample",
    "View",
    "analyze_sample",
    "draw_facets",
    "new_axes",
    "print_analysis",
]
