"""Measures of word and sentence spaces: frequency, isotropy, neighbours, density."""

# isort: skip_file
# Measures register where they stand: this is their order on the page.
from flowbert.extras.analysis.bands import BandCosines
from flowbert.extras.analysis.isotropy import (
    Isotropy,
    RandomPairCosines,
    Sentences,
    Spectra,
)
from flowbert.extras.analysis.bits import Bits
from flowbert.extras.analysis.word_space import Buckets, LayerAnisotropy, Words
from flowbert.extras.analysis.neighbours import Neighbours
from flowbert.extras.analysis.drawing import Plot
from flowbert.extras.analysis.measure import (
    MEASURES,
    Analysis,
    Measure,
    Sample,
    analyze_sample,
    by_method,
    number_table,
)
from flowbert.text_tables import Table

__all__ = [
    "MEASURES",
    "Analysis",
    "BandCosines",
    "Bits",
    "Buckets",
    "Isotropy",
    "LayerAnisotropy",
    "Measure",
    "Neighbours",
    "Plot",
    "RandomPairCosines",
    "Sample",
    "Sentences",
    "Spectra",
    "Table",
    "Words",
    "analyze_sample",
    "by_method",
    "number_table",
]
