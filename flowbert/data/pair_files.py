"""Where the pairs of each STS task lie, and how its files are laid out: tables of sentence, sentence, score."""

from collections.abc import Mapping
from pathlib import Path

from flowbert.data.files import folder_names, listing
from flowbert.data.readers import named_fields, read_delimited, read_tabs
from flowbert.data.table import Table
from flowbert.data.text import read_lines
from flowbert.errors import UserError

Splits = Mapping[str, Mapping[str, Table]]
"""Split -> name of a subset -> its pairs."""

COLUMNS = ("sentence1", "sentence2", "score")
YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""Tasks of one year, each with its subsets."""

CHINESE = {"ATEC": (0.0, 1.0), "BQ": (0.0, 1.0), "LCQMC": (0.0, 1.0), "PAWSX": (0.0, 1.0), "STS-B": (0.0, 5.0)}
"""Chinese tasks and the range of their labels."""

_STSB_FILES = {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"}
_STSB_FIELDS = ("genre", "file", "year", "id", "score", "sentence1", "sentence2")
_SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_SICK_SENTENCES = ("sentence_A", "sentence_B")
_CHINESE_SPLITS = {"train": ("train",), "dev": ("valid", "dev"), "test": ("test",)}
_CHINESE_EXTENSIONS = ("data", "tsv", "txt")
_CHINESE_HEADERS = (["sentence1", "sentence2"], ["text_a", "text_b"])


def senteval_files(name: str, root: Path) -> Splits:
    """Pairs of one of the seven English tasks from a folder laid out as SentEval's ``data/downstream``.

    Raises:
        UserError: If the folder, a file or a subset is not there, or a line has not the fields it must have.
    """
    _need_folder(root)
    if name == "STSB":
        folder = root / "STS" / "STSBenchmark"
        return {split: {name: _stsb_table(_need(name, folder / file))} for split, file in _STSB_FILES.items()}
    if name == "SICKR":
        return {split: {name: table} for split, table in sick_tables(root, "relatedness_score").items()}
    folder = root / "STS" / f"{name}-en-test"
    return {"test": {subset: _year_table(folder, name, subset) for subset in YEARS[name]}}


def sick_tables(root: Path, column: str) -> dict[str, Table]:
    """Both sentences of SICK's pairs and one column more, by split, from a folder laid out as SentEval's.

    Raises:
        UserError: If the folder, a file or the column is not there.
    """
    _need_folder(root)
    paths = {split: _need("SICKR", root / "SICK" / file) for split, file in _SICK_FILES.items()}
    return {split: read_tabs(path, (*_SICK_SENTENCES, column)) for split, path in paths.items()}


def chinese_files(name: str, root: Path) -> Splits:
    """Pairs of a Chinese task from a local folder, as the Chinese BERT-whitening code lays it out.

    The files are ``ROOT/NAME/NAME.{train,valid,test}.data``, one pair a line: sentence 1, sentence 2, label, with
    tabs between them; quotes are plain characters. ``dev`` for ``valid``, the extensions ``.tsv`` and ``.txt``, and a
    header line that starts with ``sentence1, sentence2`` or ``text_a, text_b`` are accepted, too. Labels are 0 or 1,
    and 0 to 5 for STS-B. A split whose file is not there is left out; the others keep their usual names (``dev`` for
    ``valid``).

    Raises:
        UserError: If the task's folder has no such file, or a line has not three fields.
    """
    splits = {}
    for split, words in _CHINESE_SPLITS.items():
        files = [root / name / f"{name}.{word}.{extension}" for word in words for extension in _CHINESE_EXTENSIONS]
        found = next((file for file in files if file.is_file()), None)
        if found is not None:
            splits[split] = {name: _chinese_table(found)}
    if not splits:
        raise UserError(
            f"task {name}: no file {root / name / f'{name}.test.data'}; the folder {root / name} holds "
            f"{listing(folder_names(root / name), 12)}; allowed: {name}.train, {name}.valid, {name}.test "
            f"with the extensions {', '.join('.' + extension for extension in _CHINESE_EXTENSIONS)}"
        )
    return splits


def _need_folder(root: Path) -> None:
    if not root.is_dir():
        raise UserError(f"{root}: no such SentEval folder; {root.parent} holds {listing(folder_names(root.parent))}")


def _need(task: str, path: Path) -> Path:
    """Check that a task's file is there, or say what the nearest existing folder holds instead."""
    if not path.is_file():
        folder = next(parent for parent in path.parents if parent.is_dir())
        raise UserError(f"task {task}: no file {path}; the folder {folder} holds {listing(folder_names(folder), 12)}")
    return path


def _stsb_table(path: Path) -> Table:
    """A few rows of the original carry further columns, and a pair may have no score."""
    table = named_fields(path, enumerate(read_delimited(path), start=1), _STSB_FIELDS, more=True)
    table = table.rows([row for row, score in enumerate(table.texts("score")) if score.strip()])
    return Table(path, {column: table.columns[column] for column in COLUMNS}, table.lines)


def _year_table(folder: Path, task: str, name: str) -> Table:
    """Pairs and scores stand in two files; an empty line in that of the scores leaves a pair out."""
    pairs_path, scores_path = (_need(task, folder / f"STS.{kind}.{name}.txt") for kind in ("input", "gs"))
    rows, scores = read_delimited(pairs_path), read_lines(scores_path)
    if len(rows) != len(scores):
        raise UserError(
            f"{pairs_path} has {len(rows)} lines but {scores_path} has {len(scores)}; allowed: equal counts"
        )
    lines = [line for line, score in enumerate(scores, start=1) if score.strip()]
    if not lines:
        raise UserError(f"{scores_path}: no pair has a score; allowed: at least one")
    pairs = named_fields(pairs_path, [(line, rows[line - 1] or [""]) for line in lines], COLUMNS[:2])
    numbers = Table(scores_path, {"score": [scores[line - 1] for line in lines]}, lines).numbers("score", 0, 5)
    return Table(pairs_path, {**pairs.columns, "score": numbers.tolist()}, lines)


def _chinese_table(path: Path) -> Table:
    rows = [(line, fields) for line, fields in enumerate(read_delimited(path), start=1) if fields]
    if rows and [field.strip().lower() for field in rows[0][1][:2]] in _CHINESE_HEADERS:
        rows = rows[1:]
    if not rows:
        raise UserError(f"{path}: no pair; allowed: lines with sentence 1, sentence 2, label")
    return named_fields(path, rows, COLUMNS)
