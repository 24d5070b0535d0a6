"""Measures, the sample that they measure, and the analysis that holds their frames."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.text_files import as_list
from flowbert.extras.analysis.drawing import Plot
from flowbert.io import as_json, read_json, write_json
from flowbert.registry import Registry, imports_refused
from flowbert.text_tables import Table, print_table

if TYPE_CHECKING:  # imported when it is used
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow

_TOKENIZED = 10_000  # sentences tokenized at once


def tokens_of(
    encoder: "SentenceEncoder", sentences: Sequence[str]
) -> Iterator[list[int]]:
    """Token ids of sentences, truncated for the encoder; special tokens are left out."""
    tokenizer = encoder.backbone.tokenizer
    length = encoder.max_length - tokenizer.num_special_tokens_to_add()
    for start in range(0, len(sentences), _TOKENIZED):
        block = list(sentences[start : start + _TOKENIZED])
        rows = tokenizer(block, add_special_tokens=False, verbose=False)["input_ids"]
        yield from (row[:length] for row in rows)


RAW = "raw"
"""Method of the embeddings as they are."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Sentences with their vectors under every method, and further inputs of measures.

    A measure whose input is missing is left out.

    Attributes:
        sentences: N distinct sentences in random order, since the first ones are drawn; N above 10.
        vectors: Their vectors by method, float64, ``(N, D)``, D at least 2.
        pairs: Gold scores ``(P,)`` and cosines by method, ``(P,)``, for each task.
        encoder: The transformer that the vectors are of, whose tokens are measured.
        corpus: Sentences whose tokens are counted; empty for :attr:`sentences`.
        flows: Fitted flows by method, whose densities are measured.
        fitting: Vectors that the flows were fitted on, ``(F, D)``.
        held_out: Other vectors, ``(H, D)``.
        tokens: Number of tokens to draw in sentences.
        seed: Seed of what is drawn.
    """

    sentences: Sequence[str] = ()
    vectors: Mapping[str, Tensor] = field(default_factory=dict)
    pairs: Mapping[str, tuple[Floats, Mapping[str, Floats]]] = field(
        default_factory=dict
    )
    encoder: "SentenceEncoder | None" = None
    corpus: Sequence[str] = ()
    flows: "Mapping[str, Glow]" = field(default_factory=dict)
    fitting: Tensor | None = None
    held_out: Tensor | None = None
    tokens: int = 2000
    seed: int = 0

    @cached_property
    def input_embeddings(self) -> Tensor | None:
        """Input embeddings of the corpus's tokens, the most frequent first, ``(W, D)``.

        Equally frequent ones are in the order of their ids; None without a transformer.
        """
        if self.encoder is None:
            return None
        tokens = tokens_of(self.encoder, self.corpus or self.sentences)
        counts = Counter(chain.from_iterable(tokens))
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        network: Any = self.encoder.backbone.network
        embeddings: Tensor = network.get_input_embeddings().weight.detach()
        return embeddings[ranked]


def number_table(title: str, frame: pd.DataFrame) -> Table:
    """A frame with three decimals, or one where a column reaches 10; its first column names rows.

    Args:
        title: Caption.
        frame: One column of names, then numbers.

    Example:
        >>> frame = pd.DataFrame({"method": ["raw"], "mean_cosine": [0.5]})
        >>> number_table("Cosines", frame).text.loc["raw", "mean cosine"]
        '0.500'
    """
    numbers = frame.set_index(frame.columns[0])
    numbers.columns = numbers.columns.str.replace("_", " ")
    decimals = {name: 1 if numbers[name].abs().max() >= 10 else 3 for name in numbers}
    text = {
        name: numbers[name].map(f"{{:z.{n}f}}".format) for name, n in decimals.items()
    }
    return Table(title, pd.DataFrame(text))


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
        """The measurements in long form; empty if the sample has nothing to measure.

        Args:
            sample: Sentences with their vectors, and further inputs.

        Returns:
            The frame.
        """

    @classmethod
    def lines(cls, frame: pd.DataFrame) -> list[str]:  # noqa: ARG003
        """Lines above the tables: the note, unless a measure says what its frame shows.

        Args:
            frame: The measure's own frame.
        """
        return [cls.note] if cls.note else []

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


ALL = "all"
"""Stands for every measure that is registered."""


class Analysis:
    """Measurements of the vectors of sentences.

    Args:
        setting: JSON values: encoder, layers, pooling and corpus as in a row of results, ``fitted``
            (sentences that the maps were fitted on), ``sentences`` (those measured).
        frames: Frames by the names of their measures, see :class:`Measure`.

    Attributes:
        setting: As the argument.
        frames: The frames that are not empty. A number that is not finite is NaN.

    Raises:
        UserError: If a name is of no measure.

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
        self.frames: dict[str, pd.DataFrame] = {}
        for name, frame in frames.items():
            measure_of(name)
            if len(frame):
                finite = frame.replace([math.inf, -math.inf], math.nan)
                self.frames[name] = finite.reset_index(drop=True)

    def to_json(self, path: str | Path) -> None:
        """Write a file that :meth:`from_json` reads; NaN becomes null."""
        frames = {name: frame.to_dict("list") for name, frame in self.frames.items()}
        write_json(path, as_json({"setting": self.setting, **frames}))

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a file of :meth:`to_json`.

        Raises:
            UserError: If the file is missing, damaged, no analysis, or of a measure that is unknown
                here.
        """
        content = read_json(path, {"setting": dict})
        setting = content.pop("setting")
        frames = {
            name: pd.DataFrame(columns).fillna(math.nan)
            for name, columns in content.items()
        }
        return cls(setting, frames)


def measure_of(name: str) -> type[Measure]:
    """The measure of a frame's name, which a file may hold: it is not imported.

    Raises:
        UserError: If the measure is unknown, or its module is not imported.
    """
    with imports_refused():
        return MEASURES.find(name)


def make_measures(texts: str | Sequence[str] = ALL) -> dict[str, Measure]:
    """Measures by name.

    Args:
        texts: ``all``, names or import paths with their options; a list, or comma-separated.
            What is given later replaces a measure of the same name.

    Raises:
        UserError: If there is no such measure or option.

    Example:
        >>> list(make_measures("spectra,bits"))
        ['spectra', 'bits']
    """
    measures: dict[str, Measure] = {}
    for text in as_list(texts, "measures"):
        for name in MEASURES if text == ALL else [text]:
            measure = MEASURES.make(name, argument="measures")
            measures[MEASURES.name_of(type(measure))] = measure
    return measures


def analyze_sample(
    sample: Sample,
    setting: Mapping[str, Any],
    measures: str | Sequence[str] = ALL,
) -> Analysis:
    """Measure a sample: nothing is fitted, and no sentence is embedded.

    Args:
        sample: The sample.
        setting: What the vectors are of, see :class:`Analysis`.
        measures: See :func:`make_measures`.

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
    setting = {**setting, "sentences": len(sample.sentences)}
    if measures != ALL:
        setting["measures"] = as_list(measures, "measures")
    frames = {
        name: each.frame(sample) for name, each in make_measures(measures).items()
    }
    return Analysis(setting, frames)


def print_analysis(analysis: Analysis) -> None:
    """Print the tables of numbers of an analysis."""
    for name, frame in analysis.frames.items():
        for table in measure_of(name).tables(frame):
            print_table(table.text, table.title)
