"""Tables: every format gives the same rows."""

import io
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.data.scored_pairs import load_sts
from flowbert.data.tables import as_number, read_columns, read_frame, read_texts
from flowbert.tasks import load_tasks
from helpers import refused, warned

TEXTS = ["a, b", 'say "hi"', "2020-01-01", "NULL", "long " * 30_000 + "end"]


def encode(texts, kind):
    """A table with the columns text and score, and with blank lines where there are lines."""
    frame = pd.DataFrame({"text": texts, "score": map(str, range(len(texts)))})
    if kind == "parquet":
        sink = io.BytesIO()
        vectors = [[0.5, 1.0]] * len(texts)
        pq.write_table(pa.table({**frame, "v": vectors}), sink)
        return sink.getvalue()
    if kind == "csv":
        return (frame.to_csv(index=False) + "\n,\n \n").encode()
    rows = [("text", "score"), *frame.itertuples(index=False)]
    lines = ["\t".join(row) for row in rows]
    if kind == "jsonl":
        lines = [json.dumps({"text": t, "score": float(s)}) for t, s in rows[1:]]
    return "\n\n".join(lines).encode()


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        ("a.csv", None),
        ("A.CSV.gz", "gzip"),
        ("a.tsv.zst", "zstd"),
        ("a.tsv", None),
        ("a.jsonl.gz", "gzip"),
        ("a.parquet", None),
        ("a.parquet.zst", "zstd"),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path, name, compression):
    path = tmp_path / name
    with pa.output_stream(path, compression=compression) as file:
        file.write(encode(TEXTS, name.lower().split(".")[1]))
    frame = read_frame(path, ["missing"], ["score", "text"])
    # Blank lines count, as in an editor.
    steps = {"csv": range(2, 7), "tsv": range(3, 12, 2), "jsonl": range(1, 10, 2)}
    assert [*frame.index] == [*steps.get(name.lower().split(".")[1], range(1, 6))]
    assert read_texts(frame, "text") == TEXTS
    assert read_columns(frame, {"score": as_number(0, 5)}) == [[0, 1, 2, 3, 4]]
    assert list(frame) == ["score", "text"]


CHARACTERS = "a 1é句🙂\"',;|=\\\t\n\x0b\x1c\x85\u2028\ufeff"


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(CHARACTERS).filter(str.strip), min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_any_text_comes_back(tmp_path_factory, kind, texts):
    path = tmp_path_factory.getbasetemp() / f"any.{kind}"
    path.write_bytes(encode(texts, kind))
    frame = read_frame(path, ["text"])
    assert read_texts(frame, "text") == [text.strip() for text in texts]


QUOTES = ['"open', 'closed"', '"Hi," he said.', "5' 3\"", '"']


def test_quotes_in_a_tsv_are_characters(tmp_path):
    path = tmp_path / "plain.tsv"
    path.write_text("\n".join(["text\tscore", *(f"{text}\t1" for text in QUOTES)]))
    assert read_texts(read_frame(path, ["text"]), "text") == QUOTES


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("sign", [";", "|", ",", "\t"])
@pytest.mark.parametrize("first", ["", "sep={}\n"])
def test_the_header_tells_the_separator(name, sign, first, tmp_path):
    path = tmp_path / name
    rows = ["id", " text "], ["0", "a man rides"]
    path.write_text(first.format(sign) + "\n".join(map(sign.join, rows)))
    assert read_texts(read_frame(path, ["text"]), "text") == ["a man rides"]
    refused("columns id, text", read_frame, path)


HEADERS = {
    'note;"rating (0, 1, 2)"': ["note", "rating (0, 1, 2)"],
    '"a;b;c",d': ["a;b;c", "d"],
    '"two\nlines | | |"\tb': ["two\nlines | | |", "b"],
}


@pytest.mark.parametrize("header", HEADERS)
def test_separators_in_quotes_do_not_count(header, tmp_path):
    """Whatever the header, as the library that writes csv files quotes it."""
    path = tmp_path / "a.csv"
    sign = header[-2] if header[-1] != '"' else ";"
    path.write_text(f"{header}\nx{sign}1\n")
    first, second = HEADERS[header]
    frame = read_frame(path, [first, second])
    assert frame.to_numpy().tolist() == [["x", "1"]]


@pytest.mark.parametrize("sign", [";", "\t", ",", "|"])
def test_a_decimal_comma_is_a_number_where_no_comma_separates(sign, tmp_path):
    path = tmp_path / "pairs.csv"
    cells = (
        ("sentence1", "sentence2", "score"),
        ("a", "6,5", '"6,6"'),
        ("c", "d", "1.5"),
    )
    path.write_text("\n".join(map(sign.join, cells)).replace("6,5", '"6,5"'))
    if sign in ";\t":
        (subset,) = load_sts(str(path)).split("test")
        assert subset.sentences2 == ("6,5", "d"), "texts keep their commas"
        assert subset.scores.tolist() == [6.6, 1.5]
    else:
        refused("score is '6,6'; expected a finite number", load_tasks, str(path))


ROWS = [("a", "b", 1.0), ("c", "", 2.0), ("e", "f", 3.0), ("g", "h", 4.0)]


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(4),
        pd.Index([7, 7, 7, 8], name="id"),
        pd.Index(["x", 1, None, "x"], name="id"),
        pd.MultiIndex.from_tuples([(1, 1)] * 4, names=["a", "b"]),
    ],
)
@pytest.mark.parametrize("names", [[0, 1, 2], ["l", "r", "s"]])
def test_any_data_frame_gives_its_valid_pairs(index, names):
    frame = pd.DataFrame(ROWS, index, names)
    columns = ",".join(map(str, names))
    with warned("1 of 4 rows are invalid"):
        (task,) = load_tasks(frame, columns=columns, skip_invalid=True)
    assert task.pairs() == (("a", "e", "g"), ("b", "f", "h"))
    assert task.state()["gold"].tolist() == [1, 3, 4]


def test_half_a_character_becomes_a_question_mark(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude42 \\ud83d"}\n')
    frame = read_frame(tmp_path / "a.jsonl")
    assert read_texts(frame, "text") == ["\U0001f642 ?"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_occurs_twice(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("text,text,v\na,b,c\n")
    else:
        table = pa.Table.from_arrays(
            [pa.array([x]) for x in "abc"], ["text", "text", "v"]
        )
        pq.write_table(table, path)
    refused("2 columns 'text'; expected one", read_frame, path, ["text"])
    assert read_frame(path, ["v"])["v"].tolist() == ["c"]
