"""Readers: what they accept, and the file and line in every error."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.corpus import read_sentences
from flowbert.data.hub import read_hub
from flowbert.data.readers import read_delimited, read_table
from flowbert.errors import UserError


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_delimited_takes_quotes_as_characters(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", b'"It\'s a\t"b"" c\n\nx\ty\tz\n')
    assert read_delimited(path) == [["\"It's a", '"b"" c'], [], ["x", "y", "z"]]


ROWS = [("a, b", "1"), ('say "hi"', "2.5"), ("tab", "0")]


def _table(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(
            pa.table({"text": [t for t, _ in ROWS], "other": [0, 0, 0], "score": [s for _, s in ROWS]}), path
        )
        return path
    if "jsonl" in name:
        text = "\n".join(json.dumps({"text": t, "other": 0, "score": s}) for t, s in ROWS)
    elif "csv" in name:
        text = "text,other,score\n" + "\n".join('"{}",0,{}'.format(t.replace('"', '""'), s) for t, s in ROWS)
    else:
        text = "text\tother\tscore\n" + "\n".join(f"{t}\t0\t{s}" for t, s in ROWS)
    return _write(path, text.replace("\n", "\n\n", 1).encode() + b"\n")


NAMES = ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = _table(tmp_path, name)
    table = read_table(path, ["score", "text"])
    assert table.texts("text") == [t for t, _ in ROWS]
    np.testing.assert_array_equal(table.numbers("score", 0, 5), [1.0, 2.5, 0.0])
    assert (len(table), table.blank) == (3, 0 if name == "a.parquet" else 1)


@pytest.mark.parametrize("name", NAMES)
def test_missing_column_names_those_there(tmp_path: Path, name: str) -> None:
    message = r"no column 'texts'; allowed: text, other, score \(did you mean 'text'\?\)"
    with pytest.raises(UserError, match=message):
        read_table(_table(tmp_path, name), ["texts"])


def test_csv_quoting_may_span_lines_and_lines_are_counted(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", b'text,score\n"two\nlines",1\n\nplain,9\n')
    table = read_table(path, ["text", "score"])
    assert table.texts("text") == ["two\nlines", "plain"]
    with pytest.raises(UserError, match=r"a\.csv:5: score is '9' \(str\); allowed: a number from 0 to 5"):
        table.numbers("score", 0, 5)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "text,score\na,1\nb\n", "a.csv:3: 1 fields; allowed: 2, as in the header"),
        ("a.tsv", "text\tscore\na\t1\t2\n", "a.tsv:2: 3 fields; allowed: 2, as in the header"),
        ("a.csv", 'text,score\na,1\n"open,1\nb,2\n', "a.csv:3: bad quoting in the row that starts here"),
        ("a.csv", 'text,score\n"a"b,1\n', "a.csv:2: bad quoting in the row that starts here"),
        ("a.csv", "text,text\na,1\n", "a.csv:1: 2 columns named 'text'; allowed: one"),
        ("a.csv", "\n \n", "a.csv: no row, only a header or blank lines"),
        ("a.csv", "text\n\n", "a.csv: no row, only a header or blank lines"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', "a.jsonl:2: invalid JSON (Expecting value"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', "a.jsonl:2: JSON ['b'] (list); allowed: one JSON object a line"),
        ("a.jsonl", '{"text": "a"}\n\n{"b": 1}\n', "a.jsonl:3: no column 'text'; allowed: b"),
        ("a.parquet", "PAR1 but not really", "a.parquet: not a parquet file"),
        ("a.txt", "a\n", "a.txt: a .txt file has no columns; allowed: .csv, .tsv, .jsonl"),
    ],
)
def test_bad_tables_name_file_and_line(tmp_path: Path, name: str, data: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/{message}")):
        read_table(_write(tmp_path / name, data.encode()), ["text"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [("3", "3 (int)"), ("null", "null"), ("NaN", "NaN"), ("true", "True (bool)"), ("[1]", "[1] (list)")],
)
def test_values_that_are_no_text_are_shown(tmp_path: Path, value: str, shown: str) -> None:
    path = _write(tmp_path / "a.jsonl", f'{{"text": "a"}}\n{{"text": {value}}}\n'.encode())
    with pytest.raises(UserError, match=re.escape(f"a.jsonl:2: column 'text' holds {shown}; allowed: text")):
        read_table(path, ["text"]).texts("text")


def test_parquet_null_names_the_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet:2: column 'text' holds null; allowed: text"):
        read_table(tmp_path / "a.parquet", ["text"]).texts("text")


def test_sentences_of_several_files_of_several_kinds(tmp_path: Path) -> None:
    _write(tmp_path / "a.txt", b" one \n\n \ntwo\n")
    _write(tmp_path / "b.csv.gz", b"only\nthree\n\n")
    _write(tmp_path / "c.jsonl", b'{"only": "four", "x": 1}\n{"only": " ", "x": 1}\n')
    read = read_sentences(f"{tmp_path}/a.txt,{tmp_path}/[bc].*", column="only")
    assert read.sentences == ("one", "two", "three", "four")
    assert read.blank == 4
    assert read_sentences(tmp_path / "b.csv.gz").sentences == ("three",)


def test_sentences_need_a_column_and_some_text(tmp_path: Path) -> None:
    message = r"a\.csv:1: choose a column; allowed: x, y"
    with pytest.raises(UserError, match=message):
        read_sentences(_write(tmp_path / "a.csv", b"x,y\n1,2\n"))
    with pytest.raises(UserError, match=r"b\.txt: no sentence, only 2 blank lines"):
        read_sentences(_write(tmp_path / "b.txt", b"\n  \n"))
    with pytest.raises(UserError, match="unknown extension"):
        read_sentences(_write(tmp_path / "b.doc", b"a\n"))


def _texts(kind: str, values: list[bytes]) -> pa.Array:
    """A column of bytes that are declared to be text."""
    text, raw = (pa.large_string(), pa.large_binary()) if kind == "large" else (pa.string(), pa.binary())
    array = pa.Array.from_buffers(text, len(values), pa.array(values, raw).buffers())
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), array)
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), array)
    return array


@pytest.mark.parametrize("kind", ["plain", "large", "dictionary", "list"])
def test_parquet_text_that_is_not_utf8_names_the_row(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "text": _texts(kind, [b"a", b"caf\xe9", b"\xff"])}), path)
    message = r"a\.parquet:2: column 'text': byte 0xe9 at position 4 is not UTF-8; allowed: UTF-8"
    with pytest.raises(UserError, match=message):
        read_table(path, ["text"])
    assert read_table(path, ["id"]).columns["id"] == [1, 2, 3]


def test_parquet_column_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    path.write_bytes(path.read_bytes().replace(b"text", b"te\xe9t"))
    with pytest.raises(UserError, match=r"a\.parquet: the name of a column is not UTF-8"):
        read_sentences(path)


def test_half_a_character_in_json_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", b'{"text": "\\ud83d\\ude42"}\n{"text": "x\\ud800"}\n')
    with pytest.raises(UserError, match=r"a\.jsonl:2: column 'text' holds .* with a lone surrogate; allowed: Unicode"):
        read_sentences(path)
    path.write_bytes(b'{"tex\\nt": "a"}\n')
    with pytest.raises(UserError, match=r"no column 'text'; allowed: tex t"):
        read_table(path, ["text"])


def test_hub_text_that_is_not_utf8_names_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    pq.write_table(pa.table({"text": _texts("plain", [b"a", b"caf\xe9"])}), folder / "train.parquet")
    with pytest.raises(UserError, match=r"mine:2: column 'text': byte 0xe9 at position 4"):
        read_hub(str(folder), [["text"]])
