"""Measures and views by name, and the analysis, which contains the frames of measures."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
from matplotlib.figure import Figure

from flowbert.data.text_files import as_list
from flowbert.extras.analysis import (
    bands,
    bits,
    isotropy,
    neighbours,
    word_space,
)
from flowbert.extras.analysis.sample import Sample
from flowbert.io import as_json, read_json, write_json
from flowbert.registry import Registry
from flowbert.text_tables import print_table

MEASURES: Registry[Callable[..., pd.DataFrame]] = Registry("measure", given=("sample",))
"""Functions from a :class:`Sample` to a frame in long form, by the name of the frame.

A frame is empty if the sample has nothing to measure. Other parameters are options, as in
``first-directions:count=5``.
"""

MEASURES |= {
    "band_cosines": bands.band_cosines,
    "isotropy": isotropy.isotropy,
    "random_pairs": isotropy.random_pairs,
    "spectra": isotropy.spectra,
    "sentences": isotropy.sentence_map,
    "bits": bits.bits,
    "words": word_space.words,
    "buckets": word_space.buckets,
    "layers": word_space.layers,
    "neighbours": neighbours.neighbours,
}


class View(NamedTuple):
    """How a page shows a frame.

    Attributes:
        section: Section of the page.
        title: Title of the table or picture.
        note: Explanation.
        show: Function from the frame to a picture, or to the frame of a table.
        folded: Whether the page folds it.
    """

    section: str
    title: str
    note: str
    show: Callable[[pd.DataFrame], Figure | pd.DataFrame]
    folded: bool = False


_COSINES, _NEIGHBOURS = "Cosines by gold score", "Nearest neighbours"
_SPACE, _WORDS = "Embedding space", "Word space"

VIEWS: dict[str, View] = {
    "band_cosines": View(
        _COSINES,
        "The less the bands overlap, the better the ranking",
        "Cosines of the pairs. Each row is a band of the gold score, the highest above, with its "
        "median at the right.",
        bands.draw_bands,
    ),
    "neighbours": View(
        _NEIGHBOURS,
        "Three nearest neighbours of some sentences",
        "By cosine, among the sampled sentences; new: not among five neighbours under raw. Compare "
        "cosines within a column: where unrelated sentences are near 0, a nearest one at 0.2 says "
        "that the sample has no similar sentence.",
        neighbours.tabulate_neighbours,
    ),
    "isotropy": View(
        _SPACE,
        "Isotropy of the sampled sentences",
        "Effective rank, participation ratio: in how many directions the vectors vary. Partition "
        "isotropy: 1 if all directions are alike. Hubness: 0 if no sentence is a neighbour of very "
        "many.",
        pd.DataFrame,
    ),
    "spectra": View(
        _SPACE,
        "Spectra",
        "Eigenvalues of the covariance as shares of their sum; a flat line is isotropic. The line "
        "of whitening falls because it was fitted on other sentences, or on more.",
        isotropy.draw_spectra,
    ),
    "sentences": View(
        _SPACE,
        "Map of the sampled sentences",
        "The first two principal components of each method, coloured by length; scales differ.",
        isotropy.draw_sentences,
    ),
    "bits": View(
        _SPACE,
        "Bits per dimension of held-out sentences",
        "Lower is better. A flow above the best Gaussian is a worse density than whitening, "
        "because of its noise.",
        bits.tabulate_bits,
    ),
    "random_pairs": View(
        _SPACE,
        "Cosines of pairs of sentences, by percentile",
        "One of a hundred pairs has a cosine above p99.",
        pd.DataFrame,
        folded=True,
    ),
    "words": View(
        _WORDS,
        "Input embeddings by frequency",
        "Tokens on two singular directions (Gao et al., 2019); rank 0 is the most frequent.",
        word_space.draw_words,
    ),
    "buckets": View(
        _WORDS,
        "Norm and sparsity of input embeddings",
        "Means of the norm, and of distance to and product with the nearest words: table 1 of Li "
        "et al. (2020).",
        pd.DataFrame,
        folded=True,
    ),
    "layers": View(
        _WORDS,
        "Anisotropy by layer",
        "Mean cosine of random tokens in sentences (Ethayarajh, 2019), 0 if isotropic; input: "
        "distinct tokens before the first layer.",
        word_space.draw_layers,
    ),
}
"""Views by the name of their frame, in the order of the page."""


class Analysis:
    """Measurements of the vectors of sentences.

    Args:
        setting: JSON values: encoder, layers, pooling and corpus as in a row of results; ``fitted``
            and ``sentences``, the numbers of fitted and of measured sentences.
        frames: Frames by the names of their measures.

    Attributes:
        setting: As the argument.
        frames: The frames that are not empty. A number that is not finite is NaN.

    Example:
        >>> bits = pd.DataFrame({"density": ["flow"], "bits": [-2.5]})
        >>> Analysis({"encoder": "bert"}, {"bits": bits}).frames["bits"]
          density  bits
        0    flow  -2.5
    """

    def __init__(
        self, setting: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]
    ) -> None:
        self.setting = dict(setting)
        self.frames = {
            name: frame.replace([math.inf, -math.inf], math.nan).reset_index(drop=True)
            for name, frame in frames.items()
            if len(frame)
        }

    def to_json(self, path: str | Path) -> None:
        """Write a file that :meth:`from_json` reads; NaN becomes null."""
        frames = {name: frame.to_dict("list") for name, frame in self.frames.items()}
        write_json(path, as_json({"setting": self.setting, **frames}))

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a file of :meth:`to_json`.

        Raises:
            UserError: If the file is missing, damaged, or not an analysis.
        """
        content = read_json(path, {"setting": dict})
        setting = content.pop("setting")
        frames = {name: pd.DataFrame(columns) for name, columns in content.items()}
        return cls(setting, {x: y.fillna(math.nan) for x, y in frames.items()})


def parse_measures(
    texts: str | Sequence[str] = "all",
) -> dict[str, tuple[Callable[..., pd.DataFrame], dict[str, Any]]]:
    """Measures and their options, by the names of their frames.

    Args:
        texts: ``all``, names or import paths with their options; a list, or comma-separated. The
            last of several with one name is used.

    Raises:
        UserError: If a measure or option is unknown.

    Example:
        >>> list(parse_measures("spectra,bits"))
        ['spectra', 'bits']
    """
    measures = {}
    for text in as_list(texts, "measures"):
        for name in MEASURES if text == "all" else [text]:
            measure, options = MEASURES.parse(name, "measures")
            measures[MEASURES.name_of(measure)] = measure, options
    return measures


def analyze_sample(
    sample: Sample,
    setting: Mapping[str, Any],
    measures: str | Sequence[str] = "all",
) -> Analysis:
    """Measure a sample: nothing is fitted, and no sentence is embedded.

    Args:
        sample: The sample.
        setting: Description of the vectors, see :class:`Analysis`.
        measures: See :func:`parse_measures`.

    Raises:
        UserError: If there is no such measure.

    Example:
        >>> import torch
        >>> x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> texts = [f"sentence {number}" for number in range(60)]
        >>> analysis = analyze_sample(Sample(texts, {"raw": x}), {"encoder": "bert"})
        >>> len(analysis.frames["spectra"]), len(analysis.frames["neighbours"])
        (4, 150)
    """
    frames = {
        name: measure(sample, **options)
        for name, (measure, options) in parse_measures(measures).items()
    }
    measured = {"sentences": len(sample.sentences), "measures": measures}
    return Analysis({**setting, **measured}, frames)


def format_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Format a frame: three decimals, one if a column reaches 10, one digit for tiny values.

    The first column names the rows, unless the index does.

    Example:
        >>> frame = pd.DataFrame({"method": ["raw"], "rows": [9], "cosine": [-0.5]})
        >>> format_table(frame).loc["raw"].tolist()
        ['9', '-0.500']
    """
    text = frame.rename(columns=lambda name: str(name).replace("_", " ")).astype(str)
    for place, name in enumerate(frame):
        values = frame[name]
        if pd.api.types.is_float_dtype(values):
            decimals = 1 if values.abs().max() >= 10 else 3
            shown = values.map(f"{{:z.{decimals}f}}".format)
            is_lost = values.abs().between(0, 0.0005, inclusive="neither")
            text.isetitem(place, shown.mask(is_lost, values.map("{:.1g}".format)))
    return text if frame.index.names != [None] else text.set_index(text.columns[0])


def print_analysis(analysis: Analysis) -> None:
    """Print the tables of numbers of an analysis."""
    for name, view in VIEWS.items():
        frame = analysis.frames.get(name)
        if frame is not None and name != "neighbours":
            shown = view.show(frame)
            if isinstance(shown, pd.DataFrame):
                print_table(format_table(shown), view.title)
