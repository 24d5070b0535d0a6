"""The STS tasks of the Chinese BERT-whitening code."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from flowbert.data.scored_pairs import PAIR_COLUMNS, Part
from flowbert.data.tables import make_frame
from flowbert.data.text_files import read_lines
from flowbert.errors import warn

_SPLITS = {"train": "train", "valid": "dev", "dev": "dev", "test": "test"}
_HEADERS = ("sentence1\tsentence2", "text_a\ttext_b")


def read_chinese(root: Path, name: str) -> Iterator[Part]:
    """Read a task in the format of the Chinese BERT-whitening code.

    The files are ``ROOT/NAME/NAME.{train,valid,test}.data`` (``dev`` for ``valid`` and the
    extensions ``.tsv`` and ``.txt`` are accepted), with sentence 1, sentence 2 and label between
    tabs. A header of ``sentence1, sentence2`` or ``text_a, text_b`` is skipped; other lines without
    exactly three fields are left out with a warning, while that code does not warn.

    References:
        BERT-whitening on Chinese tasks (Su, 2021). https://github.com/bojone/BERT-whitening
    """
    paths: dict[str, Path] = {}
    folder = name.removeprefix("Chinese-")
    for word, split in _SPLITS.items():
        for extension in (".data", ".tsv", ".txt"):
            path = root / folder / f"{folder}.{word}{extension}"
            if path.is_file():
                paths.setdefault(split, path)
    paths = paths or {"test": root / folder / f"{folder}.test.data"}
    for split, path in paths.items():
        lines = read_lines(path)
        if lines and lines[0].lower().startswith(_HEADERS):
            lines = lines[1:]
        yield split, name, _chinese_rows(path, lines)


def _chinese_rows(path: Path, lines: Sequence[str]) -> pd.DataFrame:
    """Rows of the lines that have three fields."""
    fields = [line.strip().split("\t") for line in lines if line.strip()]
    records = [row for row in fields if len(row) == len(PAIR_COLUMNS)]
    if len(records) < len(fields):
        warn(
            f"{path}: {len(fields) - len(records)} of {len(fields)} lines do not have three "
            "fields between tabs; they are left out, as BERT-whitening's code does"
        )
    frame = pd.DataFrame(records, columns=list(PAIR_COLUMNS))
    return make_frame(path, frame, [PAIR_COLUMNS])
