"""Damaged files through every reader: a result or a UserError, and nothing else."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.data.corpus import load_corpus
from flowbert.data.nli import load_nli
from flowbert.data.scored_pairs import load_sts
from flowbert.errors import FlowbertWarning, UserError
from flowbert.extras.tasks.answers import load_answers
from flowbert.extras.tasks.probe import load_entailment
from flowbert.extras.word_vectors import WordVectors
from flowbert.vectors import as_vectors

TABLE = pa.table(
    {
        "sentence1": [f"a dog é {n}" for n in range(12)],
        "sentence2": list("abcdefghijkl"),
        "score": list("012340123401"),
        "gold_label": list("012012012012"),
        "qtext": list("qrqrqrqrqrqr"),
        "label": list("100110011001"),
        "atext": list("abcdefghijkl"),
    }
)
READERS = [
    lambda path: load_corpus(
        path, column=None if path.endswith(".txt") else "sentence1"
    ),
    load_sts,
    load_nli,
    load_entailment,
    load_answers,
    WordVectors,
    lambda path: as_vectors(path)[:],
]
SPECIAL = [b"NaN", b"\\ud800", *(bytes([value]) for value in b'\0\xff\r\n\t",{[')]
PIECES = st.sampled_from(SPECIAL) | st.binary(max_size=3)
EDITS = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 20), PIECES), max_size=3
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact")
    pq.write_table(TABLE, folder / "a.parquet")
    frame = TABLE.to_pandas()
    for name in ("a.csv", "a.csv.gz"):
        frame.to_csv(folder / name, index=False)
    frame.to_csv(folder / "a.tsv", index=False, sep="\t")
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    (folder / "words.txt").write_text("dog 0.1 0.2\ncat 1 2\nbird 3 4\n")
    np.save(folder / "rows.npy", np.eye(5, 3, dtype=np.float32))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=40, deadline=None)
@given(
    edits=EDITS,
    reader=st.sampled_from(READERS),
    noise=st.binary(max_size=50) | st.none(),
)
@pytest.mark.parametrize(
    "name",
    ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "words.txt", "rows.npy"],
)
def test_only_user_errors(tmp_path_factory, intact, name, edits, reader, noise):
    content = bytearray(intact[name])
    for place, length, piece in edits:
        place %= len(content) + 1
        content[place : place + length] = piece
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(bytes(content) if noise is None else noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowbertWarning)
        message = ""
        try:
            reader(str(path))
        except UserError as error:
            message = str(error)
        assert not message or name in message
        assert "\n" not in message
