"""Semantic textual similarity tasks: sentence pairs with a gold score, by split and subset."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flowbert.data.files import folder_names, listing
from flowbert.data.hub import read_hub
from flowbert.data.readers import parse_number, read_delimited, read_lines
from flowbert.errors import UserError, choices

SPLITS = ("train", "dev", "test")
SAMPLE = "SAMPLE"

_YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
_STSB_FILES = {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"}
_SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_HUB_OWNER = "mteb"
_HUB_NAMES = {**{year: f"{year.lower()}-sts" for year in _YEARS}, "STSB": "stsbenchmark-sts", "SICKR": "sickr-sts"}
_HUB_SPLITS = {"STSB": {"train": "train", "dev": "validation", "test": "test"}}

TASKS = (*_YEARS, "STSB", "SICKR")


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
        return [sentence for s in subsets for side in (s.sentences1, s.sentences2) for sentence in side]


def sentence_pairs(subsets: Sequence[Subset]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First and second sentences of all subsets, subset after subset."""
    first = tuple(sentence for subset in subsets for sentence in subset.sentences1)
    second = tuple(sentence for subset in subsets for sentence in subset.sentences2)
    return first, second


def load_task(
    name: str,
    senteval: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    score_range: tuple[float, float] | None = None,
) -> STSTask:
    """Load one task from a SentEval folder, the hub, the built-in sample, or a file of own pairs.

    Pairs without a gold score are left out. White space inside a sentence is normalized as SentEval does it (tokens
    re-joined with one space); it changes no figure: BERT's tokenizer splits on white space, too.

    Args:
        name: One of ``TASKS``, or ``SAMPLE``; a csv, tsv, jsonl or parquet file, see
            :func:`flowbert.data.pair_files.load_pairs`; or a Chinese task (ATEC, BQ, LCQMC, PAWSX, STS-B) that
            ``senteval`` holds a folder of.
        senteval: Folder laid out as SentEval's ``data/downstream``; or ``"hub"`` for the mteb data sets (whole years
            without subsets; SICKR there is all 9,927 pairs); or ``"hub:FOLDER"`` for local copies of those in a folder.
        columns: For a file of own pairs: its columns for sentence, sentence, score.
        score_range: For a file of own pairs: lowest and highest score there can be.

    Raises:
        UserError: If the task is unknown, the folder lacks the task or a subset, or a file has a bad line.

    Example:
        >>> task = load_task("SAMPLE")
        >>> list(task.splits), len(task.split("test")[0])
        (['train', 'dev', 'test'], 1000)
    """
    from flowbert.data import pair_files  # it builds on this module

    if name == SAMPLE:
        return _sample_task()
    if is_table(name):
        return pair_files.load_pairs(name, columns=columns or pair_files.COLUMNS, score_range=score_range)
    if name in pair_files.CHINESE and senteval is not None and (Path(senteval).expanduser() / name).is_dir():
        return pair_files.load_chinese(name, senteval)
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; {choices((*TASKS, SAMPLE), name.upper().replace('-', ''))}")
    if senteval is None:
        raise UserError(
            f"task {name} needs data; allowed: a SentEval folder, 'hub', or the task {SAMPLE}, which is built in"
        )
    if str(senteval) == "hub" or str(senteval).startswith("hub:"):
        return _hub_task(name, str(senteval).removeprefix("hub").removeprefix(":"))
    root = Path(senteval).expanduser()
    if not root.is_dir():
        raise UserError(f"{root}: no such SentEval folder; {root.parent} holds {listing(folder_names(root.parent))}")
    loaders: dict[str, Callable[[Path], STSTask]] = {"STSB": _stsb_task, "SICKR": _sick_task}
    return loaders[name](root) if name in loaders else _year_task(root, name)


def is_table(name: str) -> bool:
    """Whether a task's name is the path of a table file.

    Example:
        >>> is_table("mine/pairs.tsv.gz"), is_table("STSB")
        (True, False)
    """
    return name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".jsonl", ".parquet"))


def _sample_task() -> STSTask:
    from flowbert.data.sample import sample_pairs

    splits = {}
    for split in SPLITS:
        rows = sample_pairs(split)
        splits[split] = [_subset(SAMPLE, [(a, b) for a, b, _ in rows], [score for _, _, score in rows])]
    return STSTask(SAMPLE, splits)


def _subset(name: str, pairs: Sequence[tuple[str, str]], scores: Sequence[float]) -> Subset:
    first = tuple(_normalized(a) for a, _ in pairs)
    second = tuple(_normalized(b) for _, b in pairs)
    return Subset(name, first, second, np.array(scores, dtype=np.float64))


def _normalized(sentence: str) -> str:
    return " ".join(sentence.split())


def _need(task: str, path: Path) -> Path:
    """Check that a task's file is there, or say what the nearest existing folder holds instead."""
    if not path.is_file():
        folder = next(parent for parent in path.parents if parent.is_dir())
        raise UserError(f"task {task}: no file {path}; the folder {folder} holds {listing(folder_names(folder), 12)}")
    return path


def _year_task(root: Path, name: str) -> STSTask:
    folder = root / "STS" / f"{name}-en-test"
    return STSTask(name, {"test": [_year_subset(folder, name, subset) for subset in _YEARS[name]]})


def _year_subset(folder: Path, task: str, name: str) -> Subset:
    pairs_path = _need(task, folder / f"STS.input.{name}.txt")
    scores_path = _need(task, folder / f"STS.gs.{name}.txt")
    rows, scores = read_delimited(pairs_path), read_lines(scores_path)
    if len(rows) != len(scores):
        raise UserError(
            f"{pairs_path} has {len(rows)} lines but {scores_path} has {len(scores)}; allowed: equal counts"
        )
    pairs, kept = [], []
    for line, (fields, score) in enumerate(zip(rows, scores, strict=True), start=1):
        if not score.strip():
            continue
        if len(fields) != 2:
            raise UserError(f"{pairs_path}:{line}: {len(fields)} fields; allowed: 2 sentences with a tab between them")
        pairs.append(_pair(fields[0], fields[1], f"{pairs_path}:{line}"))
        kept.append(parse_number(score, 0, 5, f"{scores_path}:{line}"))
    if not pairs:
        raise UserError(f"{scores_path}: no pair has a score; allowed: at least one")
    return _subset(name, pairs, kept)


def _pair(first: str, second: str, where: str) -> tuple[str, str]:
    if not first.strip() or not second.strip():
        raise UserError(f"{where}: an empty sentence; allowed: two sentences with text")
    return first, second


def _stsb_task(root: Path) -> STSTask:
    folder = root / "STS" / "STSBenchmark"
    return STSTask("STSB", {split: [_stsb_split(_need("STSB", folder / f))] for split, f in _STSB_FILES.items()})


def _stsb_split(path: Path) -> Subset:
    """Read genre, file, year, id, score, sentence 1, sentence 2; a few rows of the original carry further columns."""
    pairs, scores = [], []
    for line, fields in enumerate(read_delimited(path), start=1):
        if not fields:
            continue
        if len(fields) < 7:
            raise UserError(f"{path}:{line}: {len(fields)} fields; allowed: 7 or more with tabs between them")
        if fields[4].strip():
            pairs.append(_pair(fields[5], fields[6], f"{path}:{line}"))
            scores.append(parse_number(fields[4], 0, 5, f"{path}:{line}"))
    return _subset("STSB", pairs, scores)


def _sick_task(root: Path) -> STSTask:
    return STSTask(
        "SICKR", {split: [_sick_split(_need("SICKR", root / "SICK" / f))] for split, f in _SICK_FILES.items()}
    )


def _sick_split(path: Path) -> Subset:
    header, *rows = read_delimited(path)
    wanted = ("sentence_A", "sentence_B", "relatedness_score")
    for column in wanted:
        if column not in header:
            raise UserError(f"{path}:1: no column {column!r}; {choices(header, column)}")
    first, second, score = (header.index(column) for column in wanted)
    pairs, scores = [], []
    for line, fields in enumerate(rows, start=2):
        if not fields:
            continue
        if len(fields) != len(header):
            raise UserError(f"{path}:{line}: {len(fields)} fields; allowed: {len(header)}, as in the header")
        pairs.append(_pair(fields[first], fields[second], f"{path}:{line}"))
        scores.append(parse_number(fields[score], 1, 5, f"{path}:{line}"))
    return _subset("SICKR", pairs, scores)


def _hub_task(name: str, folder: str) -> STSTask:
    source = str(Path(folder).expanduser() / _HUB_NAMES[name]) if folder else f"{_HUB_OWNER}/{_HUB_NAMES[name]}"
    splits = _HUB_SPLITS.get(name, {"test": "test"})
    return STSTask(name, {split: [_hub_split(source, name, hub_split)] for split, hub_split in splits.items()})


def _hub_split(source: str, name: str, split: str) -> Subset:
    table = read_hub(source, ["sentence1", "sentence2", "score"], split=split)
    pairs = list(zip(table.texts("sentence1"), table.texts("sentence2"), strict=True))
    return _subset(name, pairs, table.numbers("score", 0, 5).tolist())
