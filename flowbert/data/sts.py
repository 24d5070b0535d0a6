"""Semantic textual similarity tasks: sentence pairs with a gold score, by split and subset."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.pair_files import CHINESE, COLUMNS, YEARS, Splits, chinese_files, senteval_files
from flowbert.data.readers import TABLES, read_table
from flowbert.data.sample import SPLITS, sample_pairs
from flowbert.data.table import Table
from flowbert.errors import UserError, choices

SAMPLE = "SAMPLE"
TASKS = (*YEARS, "STSB", "SICKR")
_HUB_OWNER = "mteb"
_HUB_NAMES = {"STSB": "stsbenchmark-sts", "SICKR": "sickr-sts"}
_HUB_SPLITS = {"STSB": {"train": "train", "dev": "validation", "test": "test"}}


@dataclass(frozen=True, eq=False)
class Subset:
    """Pairs that a task scores together.

    Args:
        name: Name of the subset, e.g. ``MSRpar``; the task's name where it has no subsets.
        sentences1: First sentences, N of them.
        sentences2: Second sentences, N of them.
        scores: Gold scores of shape ``(N,)``, float64.
    """

    name: str
    sentences1: tuple[str, ...]
    sentences2: tuple[str, ...]
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.sentences1)

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Subset":
        """The pairs for which ``chosen``, of shape ``(N,)``, is true."""
        first, second = (tuple(compress(texts, chosen)) for texts in (self.sentences1, self.sentences2))
        return Subset(self.name, first, second, self.scores[chosen])


@dataclass(frozen=True, eq=False)
class STSTask:
    """A task: for each split it has (``train``, ``dev``, ``test``) a list of subsets."""

    name: str
    splits: dict[str, list[Subset]]

    def split(self, name: str) -> list[Subset]:
        """Subsets of a split.

        Raises:
            UserError: If the task does not have it; the message names those it has.
        """
        if name not in self.splits:
            raise UserError(f"task {self.name} has no split {name!r}; {choices(self.splits, name)}")
        return self.splits[name]

    def sentences(self, splits: Sequence[str] | None = None) -> list[str]:
        """Every occurrence of every sentence: by split, then subset, first sentences before second ones.

        Args:
            splits: Splits to take; all that the task has if ``None``.
        """
        subsets = [subset for name in (splits or self.splits) for subset in self.split(name)]
        return [sentence for s in subsets for texts in (s.sentences1, s.sentences2) for sentence in texts]


def sentence_pairs(subsets: Sequence[Subset]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First and second sentences of all subsets, subset after subset."""
    first = chain.from_iterable(subset.sentences1 for subset in subsets)
    return tuple(first), tuple(chain.from_iterable(subset.sentences2 for subset in subsets))


def load_task(
    name: str,
    senteval: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    score_range: tuple[float, float] | None = None,
    vectors: int | None = None,
) -> STSTask:
    r"""Load one task from a SentEval folder, the hub, the built-in sample, or a file of own pairs.

    Pairs without a gold score are left out. White space inside a sentence is normalized as SentEval does it (tokens
    re-joined with one space); it changes no figure: BERT's tokenizer splits on white space, too.

    Args:
        name: One of ``TASKS``, or ``SAMPLE``; a csv, tsv, jsonl or parquet file of own pairs, which is the split
            ``test``; or a Chinese task (ATEC, BQ, LCQMC, PAWSX, STS-B) that ``senteval`` holds a folder of, see
            :func:`flowbert.data.pair_files.chinese_files`.
        senteval: Folder laid out as SentEval's ``data/downstream``; or ``"hub"`` for the mteb data sets (whole years
            without subsets; SICKR there is all 9,927 pairs); or ``"hub:FOLDER"`` for local copies of those in a folder.
        columns: For a file of own pairs: its columns for sentence, sentence, score; default ``sentence1``,
            ``sentence2``, ``score``.
        score_range: For a file of own pairs: lowest and highest score there can be; default: every finite number.
        vectors: How many vectors there are, if a file of own pairs holds their row numbers in place of sentences.

    Raises:
        UserError: If the task is unknown, the folder lacks the task or a subset, or a file has a bad line; the message
            names file, line and what is allowed.

    Example:
        >>> task = load_task("SAMPLE")
        >>> list(task.splits), len(task.split("test")[0])
        (['train', 'dev', 'test'], 1000)
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mine.tsv"
        >>> _ = file.write_text("sentence1\tsentence2\tscore\nA dog.\tA cat.\t0.4\nHi.\tHello.\t0.9\n")
        >>> task = load_task(str(file), score_range=(0, 1))
        >>> task.name, task.split("test")[0].scores.tolist()
        ('mine', [0.4, 0.9])
    """
    if vectors is not None and not is_table(name):
        raise UserError(
            f"tasks: received {name!r}, which has sentences; allowed with vectors: files of pairs by row number "
            f"({', '.join(TABLES)})"
        )
    if name == SAMPLE:
        return _task(name, {split: {name: _sample_table(split)} for split in SPLITS}, (0, 5))
    if is_table(name):
        return _own_task(Path(name).expanduser(), columns or COLUMNS, score_range, vectors)
    folder = None if senteval is None else Path(senteval).expanduser()
    if folder is not None and name in CHINESE and (folder / name).is_dir():
        return _task(name, chinese_files(name, folder), CHINESE[name])
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; {choices((*TASKS, SAMPLE), name.upper().replace('-', ''))}")
    if folder is None:
        raise UserError(
            f"task {name} needs data; allowed: a SentEval folder, 'hub', or the task {SAMPLE}, which is built in"
        )
    hub = hub_name(str(senteval))
    files = senteval_files(name, folder) if hub is None else _hub_tables(name, hub)
    return _task(name, files, (1, 5) if name == "SICKR" else (0, 5))


def is_table(name: str) -> bool:
    """Whether a task's name is the path of a table file.

    Example:
        >>> is_table("mine/pairs.tsv.gz"), is_table("STSB")
        (True, False)
    """
    return Path(name.lower().removesuffix(".gz")).suffix in TABLES


def _task(name: str, files: Splits, score_range: tuple[float, float], vectors: int | None = None) -> STSTask:
    splits = {
        split: [_subset(*subset, score_range, vectors) for subset in tables.items()] for split, tables in files.items()
    }
    return STSTask(name, splits)


def _subset(name: str, table: Table, score_range: tuple[float, float], vectors: int | None) -> Subset:
    first, second, score = table.columns
    numbers = table.numbers(score, *score_range)
    if len(numbers) < 2:
        raise UserError(f"{table.path}: pairs: {len(numbers)}; allowed: at least 2, a rank correlation compares pairs")
    if numbers.min() == numbers.max():
        raise UserError(
            f"{table.where(0)}: the {score} of this and all other pairs ({len(numbers)}) is {numbers[0]:g}; "
            "allowed: at least two different values"
        )
    return Subset(name, table.sentences(first, vectors), table.sentences(second, vectors), numbers)


def _own_task(
    path: Path, columns: Sequence[str], score_range: tuple[float, float] | None, vectors: int | None
) -> STSTask:
    if len(columns) != 3 or len(set(columns)) != 3:
        raise UserError(
            f"columns: received {', '.join(columns)}; allowed: 3 different names (sentence, sentence, score)"
        )
    low, high = score_range or (-math.inf, math.inf)
    if not low < high:
        raise UserError(f"score_range: received {low:g} to {high:g}; allowed: a low and a higher number")
    name = path.name.split(".")[0]
    return _task(name, {"test": {name: read_table(path, columns)}}, (low, high), vectors)


def _sample_table(split: str) -> Table:
    columns = list(zip(*sample_pairs(split), strict=True))
    return Table(Path(SAMPLE), dict(zip(COLUMNS, map(list, columns), strict=True)), range(1, len(columns[0]) + 1))


def _hub_tables(name: str, folder: str) -> Splits:
    data_set = _HUB_NAMES.get(name, f"{name.lower()}-sts")
    source = str(Path(folder).expanduser() / data_set) if folder else f"{_HUB_OWNER}/{data_set}"
    splits = _HUB_SPLITS.get(name, {"test": "test"})
    return {split: {name: read_hub(source, [COLUMNS], split=there)} for split, there in splits.items()}
