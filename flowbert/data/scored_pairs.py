"""Semantic textual similarity: sentence pairs with a gold score, by split and subset.

To add a task, write a function that reads its rows and add it to ``DATA_SETS``.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.sample import SPLITS, sample_pairs
from flowbert.data.tables import (
    as_number,
    as_sentence,
    frame_of_lines,
    is_table,
    read_columns,
    read_frame,
    read_texts,
)
from flowbert.data.text_files import read_lines, table_name, user_path
from flowbert.errors import UserError, choices
from flowbert.registry import import_object

Part = tuple[str, str, pd.DataFrame]
"""A split, the name of a subset, and a frame with the columns sentence, sentence, score."""

SAMPLE_TASK = "SAMPLE"
PAIR_COLUMNS = ("sentence1", "sentence2", "score")
"""Columns of a file or data frame of scored pairs."""

_SENTENCES = ("sentence1", "sentence2")
_YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": (
        "answer-answer",
        "headlines",
        "plagiarism",
        "postediting",
        "question-question",
    ),
}
_STSB_FIELDS = ("genre", "file", "year", "id", "score", "sentence1", "sentence2")
_SICK_FILES = {"train": "train", "dev": "trial", "test": "test_annotated"}
_READ_CHINESE = "flowbert.extras.tasks.chinese.read_chinese"
_CHINESE_BINARY = ("ATEC", "BQ", "LCQMC", "PAWSX")  # labels 0 and 1
_HUB_SPLITS = {"STSB": {"train": "train", "dev": "validation", "test": "test"}}
_ZERO_TO_ONE = (0.0, 1.0)
_ZERO_TO_FIVE = (0.0, 5.0)
_RANGES = {"SICKR": (1.0, 5.0), **dict.fromkeys(_CHINESE_BINARY, _ZERO_TO_ONE)}


@dataclass(frozen=True, eq=False)
class Subset:
    """Pairs that a task scores together.

    Args:
        name: Name of the subset, such as ``MSRpar``; the task's name if it has no subsets.
        sentences1: First sentences, N of them.
        sentences2: Second sentences, N of them.
        scores: Gold scores of shape ``(N,)``, float64.
    """

    name: str
    sentences1: tuple[str, ...]
    sentences2: tuple[str, ...]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.sentences1)

    @classmethod
    def join(cls, name: str, subsets: Iterable["Subset"]) -> "Subset":
        """Concatenate subsets."""
        parts = list(subsets)
        return cls(
            name,
            tuple(text for part in parts for text in part.sentences1),
            tuple(text for part in parts for text in part.sentences2),
            np.concatenate([np.empty(0), *(part.scores for part in parts)]),
        )

    def where(self, mask: NDArray[np.bool_]) -> "Subset":
        """The pairs for which ``mask``, of shape ``(N,)``, is true."""
        first = tuple(compress(self.sentences1, mask))
        second = tuple(compress(self.sentences2, mask))
        return Subset(self.name, first, second, self.scores[mask])


@dataclass(frozen=True, eq=False)
class STSData:
    """A task: a list of subsets for each of its splits (``train``, ``dev``, ``test``).

    Args:
        name: Name of the task.
        splits: Subsets by split.
        limits: Lowest and highest allowed score; None if not stated.
        merged: Whether this source merges the subsets of the task.
    """

    name: str
    splits: dict[str, list[Subset]]
    limits: tuple[float, float] | None = None
    merged: bool = False

    @cached_property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score of the scale.

        The :attr:`limits` if they are stated. Otherwise 0 to 1 if it contains all scores, else 0 to
        5, the scale of most such data sets, if it contains them, else lowest to highest score.
        """
        if self.limits is not None:
            return self.limits
        subsets = [subset for split in self.splits.values() for subset in split]
        scores = np.concatenate([subset.scores for subset in subsets])
        lowest, highest = float(scores.min()), float(scores.max())
        for low, high in (_ZERO_TO_ONE, _ZERO_TO_FIVE):
            if low <= lowest and highest <= high:
                return low, high
        return lowest, highest

    def relative(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as shares of :attr:`score_range`: 0 the lowest, 1 the highest.

        Example:
            >>> STSData("pairs", {}, limits=(1, 5)).relative(np.array([1.0, 4.0, 5.0]))
            array([0.  , 0.75, 1.  ])
        """
        low, high = self.score_range
        return (scores - low) / (high - low)

    def split(self, name: str) -> list[Subset]:
        """Subsets of a split.

        Raises:
            UserError: If the task does not have the split.
        """
        if name not in self.splits:
            raise UserError(
                f"received {name!r} of the task {self.name}; expected {choices(self.splits, name)}",
                argument="split",
            )
        return self.splits[name]

    def sentences(self, splits: Sequence[str] | None = None) -> list[str]:
        """All sentences with repetitions, by split and subset, first sentences first.

        Args:
            splits: Splits to take; None for all.
        """
        subsets = [
            subset for split in splits or self.splits for subset in self.split(split)
        ]
        return [text for s in subsets for text in (*s.sentences1, *s.sentences2)]


def find_names(name: str) -> list[str]:
    """Find the names of data sets in the usual spellings: the seven of ``all``, or one.

    Example:
        >>> find_names("all")
        ['STS12', 'STS13', 'STS14', 'STS15', 'STS16', 'STSB', 'SICKR']
        >>> find_names("sts-b"), find_names("STSBenchmark"), find_names("pairs.csv")
        (['STSB'], ['STSB'], ['pairs.csv'])
    """
    if name == "all":
        return [*_YEARS, "STSB", "SICKR"]
    return [_NAMES.get(name.lower().translate(_SIGNS), name)]


def load_sts(
    name: str,
    senteval: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    score_range: Sequence[float] | None = None,
    skip_invalid: bool = False,
) -> STSData:
    r"""Load a task from a SentEval folder, the hub, the built-in sample or a file of pairs.

    Pairs without a gold score are left out, and white space inside a sentence becomes single
    spaces, as in SentEval.

    Args:
        name: ``STS12`` to ``STS16``, ``STSB``, ``SICKR``, or ``SAMPLE``; a table of pairs
            (:func:`flowbert.data.tables.read_frame`), which is the split ``test``; or ``ATEC``,
            ``BQ``, ``LCQMC``, ``PAWSX``, ``Chinese-STS-B``, if ``senteval`` has a folder of that
            name (``STS-B`` for the last one).
        senteval: Folder in the layout of SentEval's ``data/downstream``; ``"hub"`` for MTEB's
            data sets, in which the subsets of a year are merged, and SICKR's test split has all
            9,927 pairs; or ``"hub:FOLDER"`` for local copies of these.
        columns: Columns of a file of pairs; default ``sentence1, sentence2, score``.
        score_range: Lowest and highest score of a file of pairs. None to allow any finite number,
            with the scale :attr:`STSData.score_range`. Other tasks have the scale 0 to 5, but SICKR
            1 to 5, and ATEC, BQ, LCQMC and PAWSX 0 to 1.
        skip_invalid: Leave out invalid rows of a file of pairs, with a warning.

    Raises:
        UserError: If the task is unknown, or a file is missing or damaged.

    Example:
        >>> data = load_sts("SAMPLE")
        >>> list(data.splits), len(data.split("test")[0])
        (['train', 'dev', 'test'], 1000)
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.tsv"
        >>> _ = path.write_text("sentence1\tsentence2\tscore\na\tb\t0.4\nc\td\t0.9\n")
        >>> load_sts(str(path), score_range=(0, 1)).split("test")[0].scores.tolist()
        [0.4, 0.9]
    """
    if name == SAMPLE_TASK:
        data = STSData(name, {}, _ZERO_TO_FIVE)
        for split in SPLITS:
            first, second, scores = zip(*sample_pairs(split), strict=True)
            data.splits[split] = [Subset(name, first, second, np.array(scores))]
        return data
    if is_table(name):
        columns = columns or PAIR_COLUMNS
        if len(set(columns)) != 3:
            raise UserError(
                f"received {', '.join(columns)}; expected 3 different names",
                argument="columns",
            )
        rows = read_frame(name, columns, argument="columns")
        return scored_pairs(table_name(name), rows, score_range, skip_invalid)
    if name not in DATA_SETS:
        allowed = choices([*DATA_SETS, SAMPLE_TASK], name.upper())
        raise UserError(
            argument="tasks", received=name, expected=f"{allowed}, or a file"
        )
    if senteval is None:
        raise UserError(
            f"received nothing; expected for {name} SentEval's folder data/downstream, which "
            "github.com/facebookresearch/SentEval downloads, or hub for MTEB's copies",
            argument="senteval",
        )
    hub = hub_name(senteval)
    if hub is None:
        read = DATA_SETS[name]
        read = import_object(read) if isinstance(read, str) else read
        parts: Iterable[Part] = read(user_path(senteval), name)
    else:
        parts = _read_hub(hub, name)
    limits = _RANGES.get(name, _ZERO_TO_FIVE)
    data = STSData(name, {}, limits, merged=hub is not None and name in _YEARS)
    for split, subset, rows in parts:
        made = make_subset(subset, rows, *limits)
        data.splits.setdefault(split, []).append(made)
    return data


def scored_pairs(
    name: str,
    rows: pd.DataFrame,
    score_range: Sequence[float] | None = None,
    skip_invalid: bool = False,
) -> STSData:
    """Make a data set, with the split ``test``, of a frame of sentence, sentence, score.

    Args:
        name: Name of the data set.
        rows: As in :func:`make_subset`.
        score_range: Lowest and highest allowed score.
        skip_invalid: Leave out invalid rows with a warning.

    Raises:
        UserError: If the range is not two numbers in increasing order, or as in
            :func:`make_subset`.
    """
    limits = None
    if score_range is not None:
        if len(score_range) != 2 or not score_range[0] < score_range[1]:
            raise UserError(
                argument="score_range",
                received=list(score_range),
                expected="two numbers, the lower one first",
            )
        limits = float(score_range[0]), float(score_range[1])
    low, high = limits or (-math.inf, math.inf)
    subset = make_subset(name, rows, low, high, skip_invalid)
    return STSData(name, {"test": [subset]}, limits)


def make_subset(
    name: str, rows: pd.DataFrame, low: float, high: float, skip: bool | None = None
) -> Subset:
    """Make a subset of a frame of sentence, sentence, score.

    Args:
        name: Name of the subset.
        rows: At least one row, as of :func:`flowbert.data.tables.read_frame`.
        low: Lowest allowed score.
        high: Highest allowed score.
        skip: As in ``flowbert.data.tables.read_columns``.

    Raises:
        UserError: If a sentence is empty, a score is not allowed, or all scores are equal.
    """
    as_score = as_number(low, high, rows.attrs.get("decimal", "."))
    parsers = zip(rows, (as_sentence, as_sentence, as_score), strict=True)
    first, second, scores = read_columns(rows, dict(parsers), skip)
    if len(set(scores)) < 2:
        raise UserError(
            f"{rows.attrs['source']}: {len(scores)} pairs; expected two or more different "
            "scores"
        )
    return Subset(name, tuple(first), tuple(second), np.array(scores))


def _read_year(root: Path, name: str) -> Iterator[Part]:
    """Read a year of SemEval, whose sentences and scores are in two files."""
    folder = root / "STS" / f"{name}-en-test"
    for subset in _YEARS[name]:
        path = folder / f"STS.input.{subset}.txt"
        gold = folder / f"STS.gs.{subset}.txt"
        pairs, scores = read_lines(path), read_lines(gold)
        if len(pairs) != len(scores):
            raise UserError(
                f"{path}: has {len(pairs)} lines; expected {len(scores)}, as {gold}"
            )
        lines = [f"{score}\t{pair}" for score, pair in zip(scores, pairs, strict=True)]
        # A wrong score is reported with the name of its file.
        yield "test", subset, _scored(path, lines, (gold.name, *_SENTENCES), gold.name)


def _scored(
    path: Path, lines: list[str], names: Sequence[str], score: str = "score"
) -> pd.DataFrame:
    """Make a frame of the lines that have a score."""
    rows = frame_of_lines(path, lines, names, (*_SENTENCES, score))
    return rows[[text != "" for text in read_texts(rows, score)]]


def _read_stsb(root: Path, name: str) -> Iterator[Part]:
    """Read STS-B: no header, additional fields in a few rows, some pairs without a score."""
    for split in SPLITS:
        path = root / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        yield split, name, _scored(path, read_lines(path), _STSB_FIELDS)


def read_sick(
    root: Path, name: str, column: str = "relatedness_score"
) -> Iterator[Part]:
    """Read the sentences of SICK's pairs and another column."""
    for split, file in _SICK_FILES.items():
        path = root / "SICK" / f"SICK_{file}.txt"
        header, *lines = read_lines(path) or [""]
        columns = "sentence_A", "sentence_B", column
        yield split, name, frame_of_lines(path, lines, header.split("\t"), columns)


def _read_hub(folder: str, name: str) -> Iterator[Part]:
    """Read a task of the hub's mteb data sets, or of local copies in a folder."""
    data_set = "stsbenchmark" if name == "STSB" else name.lower()
    for split, hub_split in _HUB_SPLITS.get(name, {"test": "test"}).items():
        rows = read_hub(
            f"{folder or 'mteb'}/{data_set}-sts", PAIR_COLUMNS, split=hub_split
        )
        yield split, name, rows


DATA_SETS: dict[str, Any] = {
    **dict.fromkeys(_YEARS, _read_year),
    "STSB": _read_stsb,
    "SICKR": read_sick,
    **dict.fromkeys((*_CHINESE_BINARY, "Chinese-STS-B"), _READ_CHINESE),
}
"""Reader of each task, or its import path."""

_SIGNS = str.maketrans("", "", "-_ ")
_NAMES = {name.lower().translate(_SIGNS): name for name in DATA_SETS}
_NAMES["stsbenchmark"] = "STSB"
