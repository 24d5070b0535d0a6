"""Own pairs and Chinese tasks, good and bad."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.sts import load_task
from flowbert.errors import UserError

ROWS = [("A  dog .", "A cat .", 0.5), ('He said "hi" .', "Hi .", 1.0), ("x", "y", 0.0)]


def write(folder: Path, kind: str) -> Path:
    path = folder / f"mine.{kind}"
    records = [dict(zip(("sentence1", "sentence2", "score"), row, strict=True)) for row in ROWS]
    if kind == "parquet":
        pq.write_table(pa.table({name: [r[name] for r in records] for name in records[0]}), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif kind == "csv":
        lines = [",".join(f'"{str(value).replace(chr(34), chr(34) * 2)}"' for value in row) for row in ROWS]
        path.write_text("\n".join(["sentence1,sentence2,score", *lines]) + "\n")
    else:
        text = "\n".join("\t".join(map(str, row)) for row in [("sentence1", "sentence2", "score"), *ROWS]) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "tsv.gz", "jsonl", "parquet"])
def test_every_format_gives_the_same_task(kind: str, tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path, kind)), score_range=(0, 1))
    (subset,) = task.split("test")
    assert (task.name, subset.name, list(task.splits)) == ("mine", "mine", ["test"])
    assert subset.sentences1 == ("A dog .", 'He said "hi" .', "x")
    assert subset.sentences2 == ("A cat .", "Hi .", "y")
    np.testing.assert_array_equal(subset.scores, [0.5, 1.0, 0.0])


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("gold,left,right,other\n-3,a,b,\n1e2,c,d,\n")
    task = load_task(str(path), columns=("left", "right", "gold"))
    assert task.name == "own"
    np.testing.assert_array_equal(task.split("test")[0].scores, [-3, 100])


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (3, "c,d,good", "score is 'good' (str); allowed: a number from 0 to 5"),
        (2, "a,b,nan", "score is 'nan' (str); allowed: a number from 0 to 5"),
        (3, "c,d,5.5", "score is '5.5' (str); allowed: a number from 0 to 5"),
        (3, "c,d,", "score is '' (str); allowed: a number from 0 to 5"),
        (2, "a, ,1", "column 'sentence2' is empty; allowed: a sentence"),
        (3, "c,d", "2 fields; allowed: 3, as in the header"),
        (1, "sentence1,sentence_2,score", "no column 'sentence2'; allowed: sentence1, sentence_2, score (did you mean"),
    ],
)
def test_a_bad_line_is_named(line: int, text: str, message: str, tmp_path: Path) -> None:
    lines = ["sentence1,sentence2,score", "a,b,1", "c,d,2"]
    lines[line - 1] = text
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=f"^{re.escape(f'{path}:{line}: {message}')}"):
        load_task(str(path), score_range=(0, 5))


@pytest.mark.parametrize("value", ["inf", "NaN", "high", "1,5"])
def test_without_a_range_scores_must_be_finite(value: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(f"sentence1\tsentence2\tscore\na\tb\t1\nc\td\t{value}\n")
    with pytest.raises(
        UserError, match=f"^{re.escape(f'{path}:3: score is {value!r} (str)')}; allowed: a finite number"
    ):
        load_task(str(path))


def test_null_and_truth_values_are_no_scores(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for value, shown in (("null", "null"), ("true", "True (bool)"), ("NaN", "NaN")):
        path.write_text(f'{{"sentence1": "a", "sentence2": "b", "score": {value}}}\n')
        with pytest.raises(UserError, match=f"^{re.escape(f'{path}:1: score is {shown}')}; allowed: a finite number"):
            load_task(str(path))


def test_one_pair_and_equal_scores(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("sentence1,sentence2,score\n\na,b,1\n")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: pairs: 1; allowed: at least 2, a rank"):
        load_task(str(path))
    path.write_text("sentence1,sentence2,score\na,b,1\nc,d,1.0\n")
    message = f"{path}:2: the score of this and all other pairs (2) is 1; allowed: at least two different values"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_task(str(path))


def test_bad_options(tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    with pytest.raises(UserError, match="score_range: received 5 to 0; allowed: a low and a higher number"):
        load_task(str(path), score_range=(5, 0))
    with pytest.raises(UserError, match="columns: received a, a, b; allowed: 3 different names"):
        load_task(str(path), columns=("a", "a", "b"))
    with pytest.raises(UserError, match=r"no such file; .* \(did you mean 'mine\.csv'\?\)"):
        load_task(str(tmp_path / "mime.csv"))


def chinese(folder: Path, name: str, split: str, *lines: str, extension: str = "data") -> Path:
    path = folder / name / f"{name}.{split}.{extension}"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_chinese_layout(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        chinese(tmp_path, "LCQMC", split, '喜欢"打篮球\t爱打篮球\t1', "", f"{split}\t你好\t0")
    task = load_task("LCQMC", tmp_path)
    assert list(task.splits) == ["train", "dev", "test"]
    dev = task.split("dev")[0]
    assert (dev.sentences1, dev.sentences2) == (('喜欢"打篮球', "valid"), ("爱打篮球", "你好"))
    np.testing.assert_array_equal(dev.scores, [1, 0])


def test_chinese_variants_of_the_layout(tmp_path: Path) -> None:
    chinese(tmp_path, "STS-B", "dev", "text_a\ttext_b\tlabel", "甲\t乙\t4.2", "丙\t丁\t0", extension="tsv")
    task = load_task("STS-B", tmp_path)
    assert list(task.splits) == ["dev"]
    assert task.split("dev")[0].scores.tolist() == [4.2, 0]


def test_chinese_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown task 'lcqm'; allowed: STS12, .*"):
        load_task("lcqm", tmp_path)
    (tmp_path / "BQ").mkdir()
    with pytest.raises(UserError, match=r"task BQ: no file .*BQ\.test\.data; the folder .* holds nothing; allowed: BQ"):
        load_task("BQ", tmp_path)
    path = chinese(tmp_path, "BQ", "test", "甲\t乙\t1", "丙\t丁\t2")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}:2: score is '2' .*; allowed: a number from 0 to 1"):
        load_task("BQ", tmp_path)
    path = chinese(tmp_path, "BQ", "test", "甲\t乙\t1", "丙\t丁")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}:2: 2 fields; allowed: 3 with tabs between them"):
        load_task("BQ", tmp_path)
    path = chinese(tmp_path, "BQ", "test", "text_a\ttext_b\tlabel")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: no pair; allowed: lines with sentence 1"):
        load_task("BQ", tmp_path)
