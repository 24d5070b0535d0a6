"""Pictures of runs and analyses, one file per kind: each a :class:`flowbert.report.panel.Panel`."""

from flowbert.analysis.found import Analysis
from flowbert.report.panel import Panel
from flowbert.report.panels.densities import bits_panels
from flowbert.report.panels.gold import gold_panels
from flowbert.report.panels.latents import latent_panels
from flowbert.report.panels.sentences import sentence_panels
from flowbert.report.panels.spectra import spectrum_panels
from flowbert.report.panels.words import word_panels


def panels_of(found: Analysis) -> list[Panel]:
    """The pictures of what was measured, in the order of a page; a method has one colour in all of them."""
    groups = (gold_panels, spectrum_panels, sentence_panels, latent_panels, bits_panels, word_panels)
    return [panel for group in groups for panel in group(found)]
