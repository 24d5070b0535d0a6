"""Own sentence pairs with a score, from one table file; Chinese tasks from folders of such files."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from flowbert.data.files import folder_names, listing
from flowbert.data.readers import Table, parse_number, read_delimited, read_table
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError, choices

COLUMNS = ("sentence1", "sentence2", "score")
CHINESE = {"ATEC": (0.0, 1.0), "BQ": (0.0, 1.0), "LCQMC": (0.0, 1.0), "PAWSX": (0.0, 1.0), "STS-B": (0.0, 5.0)}
"""Chinese tasks and the range of their labels."""
_CHINESE_SPLITS = {"train": ("train",), "dev": ("valid", "dev"), "test": ("test",)}
_CHINESE_EXTENSIONS = ("data", "tsv", "txt")
_CHINESE_HEADERS = (("sentence1", "sentence2"), ("text_a", "text_b"))


def load_pairs(
    path: str | Path,
    *,
    columns: Sequence[str] = COLUMNS,
    score_range: tuple[float, float] | None = None,
    name: str | None = None,
) -> STSTask:
    r"""Load sentence pairs with a score as a task with the one split ``test`` and no subsets.

    Args:
        path: A csv, tsv, jsonl or parquet file (``.gz`` for the first three), read as
            :func:`flowbert.data.readers.read_table` says.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest score there can be; None allows every finite number.
        name: Name of the task; the file's name up to its first dot if None.

    Raises:
        UserError: If a column is missing, a sentence is empty, a score is not a number, NaN or out of the range, there
            is only one pair, or all scores are equal; the message names the file, the line and what is allowed.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mine.tsv"
        >>> _ = file.write_text("sentence1\tsentence2\tscore\nA dog.\tA cat.\t0.4\nHi.\tHello.\t0.9\n")
        >>> task = load_pairs(file, score_range=(0, 1))
        >>> task.name, task.split("test")[0].scores.tolist()
        ('mine', [0.4, 0.9])
    """
    path = Path(path).expanduser()
    if len(columns) != 3 or len(set(columns)) != 3:
        raise UserError(f"columns are {', '.join(columns)}; allowed: 3 different names (sentence, sentence, score)")
    if score_range is not None and not score_range[0] < score_range[1]:
        raise UserError(f"score range is {score_range[0]:g} to {score_range[1]:g}; allowed: a low and a higher number")
    title = path.name.split(".")[0] if name is None else name
    return STSTask(title, {"test": [_subset(title, read_table(path, columns), columns, score_range)]})


def load_chinese(name: str, folder: str | Path) -> STSTask:
    """Load a Chinese pair task from a local folder, as the Chinese BERT-whitening code lays it out.

    The files are ``FOLDER/NAME/NAME.{train,valid,test}.data``, one pair a line: sentence 1, sentence 2, label, with
    tabs between them; quotes are plain characters. ``dev`` for ``valid``, the extensions ``.tsv`` and ``.txt``, and a
    header line that starts with ``sentence1, sentence2`` or ``text_a, text_b`` are accepted, too. Labels are 0 or 1,
    and 0 to 5 for STS-B. A split whose file is not there is left out; the others keep their usual names (``dev`` for
    ``valid``).

    Args:
        name: ``ATEC``, ``BQ``, ``LCQMC``, ``PAWSX`` or ``STS-B``.
        folder: Folder that holds the tasks' folders.

    Raises:
        UserError: If the task is unknown, its folder has no such file, or a file has a bad line.
    """
    if name not in CHINESE:
        raise UserError(f"unknown task {name!r}; {choices(CHINESE, name.upper())}")
    place = Path(folder).expanduser() / name
    splits = {}
    for split, words in _CHINESE_SPLITS.items():
        files = [place / f"{name}.{word}.{extension}" for word in words for extension in _CHINESE_EXTENSIONS]
        found = next((file for file in files if file.is_file()), None)
        if found is not None:
            splits[split] = [_subset(name, _tabbed(found), COLUMNS, CHINESE[name])]
    if not splits:
        nearest = place if place.is_dir() else place.parent
        raise UserError(
            f"task {name}: no file {place / f'{name}.test.data'}; the folder {nearest} holds "
            f"{listing(folder_names(nearest), 12)}; allowed: {name}.train, {name}.valid, {name}.test "
            f"with the extensions {', '.join('.' + extension for extension in _CHINESE_EXTENSIONS)}"
        )
    return STSTask(name, splits)


def _tabbed(path: Path) -> Table:
    """Read three columns without names; blank lines are dropped and counted."""
    rows = [(line, fields) for line, fields in enumerate(read_delimited(path), start=1) if fields]
    blank = (rows[-1][0] if rows else 0) - len(rows)
    if rows and tuple(field.strip().lower() for field in rows[0][1][:2]) in _CHINESE_HEADERS:
        rows = rows[1:]
    if not rows:
        raise UserError(f"{path}: no pair; allowed: lines with sentence 1, sentence 2, label")
    for line, fields in rows:
        if len(fields) != len(COLUMNS):
            raise UserError(
                f"{path}:{line}: {len(fields)} fields; allowed: 3 with tabs between them (2 sentences, label)"
            )
    values = {column: [fields[place] for _, fields in rows] for place, column in enumerate(COLUMNS)}
    return Table(path, values, [line for line, _ in rows], blank)


def _subset(name: str, table: Table, columns: Sequence[str], score_range: tuple[float, float] | None) -> Subset:
    first, second, score = columns
    scores = np.array(
        [_score(value, table.where(row), score, score_range) for row, value in enumerate(table.columns[score])]
    )
    sides = [tuple(_sentences(table, column)) for column in (first, second)]
    if len(scores) == 1:
        raise UserError(f"{table.where(0)}: the only pair; allowed: at least 2, a rank correlation compares pairs")
    if scores.min() == scores.max():
        raise UserError(
            f"{table.where(0)}: the {score} of this and all other pairs ({len(scores)}) is {scores[0]:g}; "
            "allowed: at least two different values"
        )
    return Subset(name, sides[0], sides[1], scores)


def _score(value: object, where: str, column: str, score_range: tuple[float, float] | None) -> float:
    if score_range is not None:
        return parse_number(value, *score_range, where, column)
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where}: {column} is {value!r} ({type(value).__name__}); allowed: a finite number")
    return number


def _sentences(table: Table, column: str) -> Iterable[str]:
    for row, text in enumerate(table.texts(column)):
        sentence = " ".join(text.split())
        if not sentence:
            raise UserError(f"{table.where(row)}: column {column!r} is empty; allowed: a sentence with text")
        yield sentence
