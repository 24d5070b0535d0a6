"""Measures of word and sentence spaces: frequency, isotropy, neighbours, density."""

# isort: skip_file
# Measures register where they stand: this is their order on the page.
from flowbert.analysis.bands import BandCosines, Bands
from flowbert.analysis.isotropy import (
    Isotropy,
    RandomPairCosines,
    Sentences,
    Spectra,
)
from flowbert.analysis.bits import Bits
from flowbert.analysis.word_space import Buckets, LayerAnisotropy, Words
from flowbert.analysis.neighbours import Neighbours
from flowbert.analysis.measure import Analysis, analyze_sample
from flowbert.analysis.drawing import Plot
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.analysis.table import Table, number_table

__all__ = [
    "MEASURES",
    "Analysis",
    "BandCosines",
    "Bands",
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
