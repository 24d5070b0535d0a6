"""Corpora: where their sentences come from, samples and digests."""

from dataclasses import replace

import datasets
import numpy as np
import pandas as pd
import pytest

from flowbert.data.corpus import Corpus, load_corpus
from helpers import refused

from .conftest import write


def test_the_digest_depends_on_order_and_on_where_sentences_end():
    lists = (["a", "b"], ["b", "a"], ["ab"], ["a", "b", "b"])
    assert len({Corpus.of("x", sentences).digest for sentences in lists}) == len(lists)
    assert Corpus.of("x", ["a", " ", "b"]).digest == Corpus.of("y", ["a", "b"]).digest


def test_a_sample_is_drawn_by_the_seed_in_order():
    corpus = Corpus.of("x", [f"{i:03}" for i in range(100)])
    drawn = corpus.sample(10, seed=1)
    assert list(drawn.sentences) == sorted(set(drawn.sentences))
    assert len(drawn) == 10
    assert drawn == corpus.sample(10, seed=1) != corpus.sample(10, seed=2)
    assert corpus.sample(100, seed=1) is corpus


def test_files_of_several_formats(tmp_path):
    """A blank line and the end of a file end a document; an empty cell is a blank line."""
    write(tmp_path / "a.txt", "", " one  dog ", "two", "", " ", "three")
    write(tmp_path / "b.csv", "text,id", "three,1", ",2", "one,3")
    write(tmp_path / "c.jsonl", '{"text": " ", "id": 1}', '{"text": "four"}')
    corpus = load_corpus(f"{tmp_path}/a.txt,{tmp_path}/[bc].*", column="text")
    assert corpus.sentences == ("one  dog", "two", "three", "three", "one", "four")
    assert (corpus.blank, corpus.starts) == (5, (0, 2, 3, 4, 5))
    assert corpus.sample(3, 0).starts is None
    write(tmp_path / "d.csv", "My column", '""', "one dog")
    named = load_corpus(tmp_path / "d.csv", column="My column")
    assert (named.sentences, named.blank) == (("one dog",), 1)


TEXTS = ["one dog", " two ", "", "three"]
FRAME = pd.DataFrame({"id": range(4), "text": TEXTS})


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (TEXTS, None),
        (np.array(TEXTS), None),
        (FRAME["text"], None),
        (FRAME["text"].astype("category"), None),
        (FRAME[["text"]], None),
        (FRAME, "text"),
        (datasets.Dataset.from_pandas(FRAME), "text"),
        (datasets.Dataset.from_pandas(FRAME)["text"], None),
    ],
)
def test_sentences_in_memory_are_those_of_a_file(source, column, tmp_path):
    path = write(tmp_path / "a.txt", *TEXTS)
    expected = load_corpus(str(path))
    corpus = load_corpus(source, column=column)
    assert corpus == replace(expected, name="memory")
    assert load_corpus(corpus) is corpus


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        (
            FRAME,
            None,
            "corpus: has the columns id, text; expected the name",
        ),
        (
            FRAME,
            "txt",
            r"corpus: has the columns id, text; expected txt \(did you mean 'text'",
        ),
        (FRAME, "id", "received int '0' as sentence 1"),
        (pd.Series(["a", None]), None, "as sentence 2; expected text"),
        (["", " "], None, "has no sentence"),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict({"a": ["b"]})}),
            None,
            "received DatasetDict",
        ),
        *(
            (source, None, "^corpus: received .*; expected")
            for source in (None, b"a", {"a": 1}, np.array([["a", "b"]]))
        ),
    ],
)
def test_no_sentences_in_memory(source, column, message):
    refused(message, load_corpus, source, column=column)


@pytest.mark.usefixtures("hub_cache")
def test_local_folder_in_the_layout_of_the_hub(tmp_path):
    write(tmp_path / "own" / "train.csv", "id,text", "1,one", "2, two ")
    write(tmp_path / "own" / "test.csv", "id,text", "1,three")
    write(tmp_path / "own" / "wiki.txt", "four", "", "five")
    source = f"hub:{tmp_path}/own"
    assert load_corpus(source, column="text").sentences == ("one", "two")
    assert load_corpus(f"{source}?split=test", column="text").sentences == ("three",)
    assert load_corpus(f"{source}?data_files=wiki.txt").sentences == ("four", "five")
