"""Measures of word and sentence spaces: frequency, isotropy, neighbours, Gaussianity."""

# isort: skip_file
# Measures register where they stand: this is their order on the page.
from flowbert.analysis.bands import BandCosines, Bands
from flowbert.analysis.isotropy import Isotropy, RandomPairCosines, Spectra
from flowbert.analysis.sentences import Norms, Sentences
from flowbert.analysis.gaussianity import LatentMoments, LatentNorms, Latents
from flowbert.analysis.gaussianity import Bits
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
    "LatentMoments",
    "LatentNorms",
    "Latents",
    "LayerAnisotropy",
    "Measure",
    "Neighbours",
    "Norms",
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
