"""Tables: every format gives the same rows."""

import csv
import gzip
import io
import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.data.tables import read_table
from flowbert.errors import FlowbertWarning

TEXTS = ["a, b", 'say "hi"', "2020-01-01", "NULL", "long " * 30_000 + "end"]


def encode(texts, kind):
    """A table with the columns text and score, and with blank lines where there are lines."""
    rows = [(text, str(score)) for score, text in enumerate(texts)]
    if kind == "parquet":
        sink = io.BytesIO()
        vectors = [[0.5, 1.0]] * len(texts)
        pq.write_table(
            pa.table([*zip(*rows, strict=True), vectors], ["text", "score", "v"]), sink
        )
        return sink.getvalue()
    file = io.StringIO()
    if kind == "csv":
        csv.writer(file).writerows([["text", "score"], [], *rows, ["", ""]])
    elif kind == "tsv":
        file.write("\n\n".join("\t".join(row) for row in [("text", "score"), *rows]))
    else:
        file.write(
            "\n\n".join(json.dumps({"text": t, "score": float(s)}) for t, s in rows)
        )
    return file.getvalue().encode()


@pytest.mark.parametrize(
    "name", ["a.csv", "A.CSV.gz", "a.tsv", "a.jsonl.gz", "a.parquet"]
)
def test_every_format_gives_the_same_rows(tmp_path, name):
    data = encode(TEXTS, name.lower().split(".")[1])
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    rows = read_table(path, ["missing"], ["score", "text"])
    assert [row.index for row in rows] == [1, 2, 3, 4, 5]
    assert [row.text("text") for row in rows] == TEXTS
    assert [row.number("score", 0, 5) for row in rows] == [0, 1, 2, 3, 4]
    assert list(rows[0].values) == ["score", "text"]


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(CHARACTERS).filter(str.strip), min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_any_text_comes_back(tmp_path_factory, kind, texts):
    path = tmp_path_factory.getbasetemp() / f"any.{kind}"
    path.write_bytes(encode(texts, kind))
    rows = read_table(path, ["text"])
    assert [row.text("text") for row in rows] == [text.strip() for text in texts]


def texts_of(signs):
    text = st.text(f'ab" {signs}', max_size=6).filter(str.strip)
    return st.lists(text, min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(
    # With both, a field that is joined may look like two rows.
    texts=texts_of("\t,") | texts_of("\n'"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    columns=st.sampled_from([["text"], ["text", "score"], ["score", "text"]]),
)
def test_a_tsv_of_pandas_comes_back(tmp_path_factory, texts, quoting, columns):
    path = tmp_path_factory.getbasetemp() / "pandas.tsv"
    frame = pd.DataFrame({"text": texts, "score": range(len(texts))})
    frame[columns].to_csv(path, sep="\t", index=False, quoting=quoting)
    rows = read_table(path, ["text"])
    assert [row.text("text") for row in rows] == [text.strip() for text in texts]


PLAIN = [
    # A sentence in quotes is unlike the next one.
    (['"Hi."', '"Hi," he said.'], 3),
    # One field is quoted as in csv, and another one is opened only.
    (['"a ""b"" c"', '"open'], 3),
    # A quote of several rows, which are not joined, and a quote alone.
    (['"open', "middle", 'closed"'], None),
    (['"', "a"], None),
    (['say "hi"', "5' 3\""], None),
]


@pytest.mark.parametrize(("texts", "line"), PLAIN)
def test_quotes_in_a_tsv_are_characters(texts, line, tmp_path):
    path = tmp_path / "plain.tsv"
    rows = [f"{text}\t1" for text in texts]
    path.write_text("\n".join(["text\tscore", *rows]))
    warned: AbstractContextManager[Any] = nullcontext()
    if line is not None:
        warned = pytest.warns(FlowbertWarning, match=f"^{path}: line {line} has")
    with warned:
        found = read_table(path, ["text"])
    assert [row.text("text") for row in found] == texts


def test_half_a_character_becomes_a_question_mark(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude42 \\ud83d"}\n')
    assert read_table(tmp_path / "a.jsonl")[0].text("text") == "\U0001f642 ?"
