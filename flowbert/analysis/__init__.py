"""Measures of word and sentence spaces: frequency, isotropy, neighbours, Gaussianity."""

from flowbert.analysis.frames import Analysis as Analysis
