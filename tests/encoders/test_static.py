"""Static word vectors: reading files, averaging, SIF weights, and the store's protocol."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from flowbert.encoders.static import StaticEncoder, count_words, words_of
from flowbert.errors import FlowbertWarning, UserError
from flowbert.store.embedding_store import Encoder, MemoryStore

LINES = ["the 1 0 0", "dog 0 2 0", "runs 0 0 -4.5e-1", ". 1 1 1"]


def write(folder: Path, *lines: str, name: str = "vectors.txt") -> Path:
    path = folder / name
    text = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_words() -> None:
    assert words_of("The DOG's naïve, _x_ 3.5!") == ["the", "dog", "'", "s", "naïve", ",", "_x_", "3", ".", "5", "!"]
    assert count_words(["A dog.", "a cat"]) == {"a": 2, "dog": 1, ".": 1, "cat": 1}


def test_mean_of_known_words(tmp_path: Path) -> None:
    encoder = StaticEncoder.from_file(write(tmp_path, *LINES))
    assert (encoder.dim, len(encoder)) == (3, 4)
    found = encoder.encode(["The dog barks", "Runs."])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.5, 1, 0], [0.5, 0.5, 0.275]])


@pytest.mark.parametrize("name", ["plain.vec", "packed.txt.gz"])
def test_header_and_gzip_give_the_same(name: str, tmp_path: Path) -> None:
    expected = StaticEncoder.from_file(write(tmp_path, *LINES))
    found = StaticEncoder.from_file(write(tmp_path, "4 3", *LINES, name=name))
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert found.key() == expected.key()


def test_words_with_spaces_and_repeated_words(tmp_path: Path) -> None:
    encoder = StaticEncoder.from_file(write(tmp_path, "a 1 2", ". . . 3 4", "at name@domain.com 5 6", "a 7 8"))
    np.testing.assert_array_equal(encoder.vectors, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(encoder.encode(["a"]), [[1, 2]])


def test_only_the_first_words(tmp_path: Path) -> None:
    path = write(tmp_path, "4 3", *LINES)
    assert len(StaticEncoder.from_file(path, max_words=2)) == 2
    assert len(StaticEncoder.from_file(path, max_words=9)) == 4


def test_sif_weights() -> None:
    counts = count_words(["the the the dog"])
    encoder = StaticEncoder(["the", "dog", "cat"], np.eye(3), counts=counts, sif_a=0.25)
    the, dog, cat = 0.25 / (0.25 + 0.75), 0.25 / (0.25 + 0.25), 1.0
    np.testing.assert_allclose(encoder.encode(["the dog cat the"]), [[2 * the / 4, dog / 4, cat / 4]])


def test_a_sentence_without_known_words_gets_the_mean(tmp_path: Path) -> None:
    encoder = StaticEncoder.from_file(write(tmp_path, *LINES))
    with pytest.warns(FlowbertWarning, match="1 of 2 sentences have no word among the 4 with a vector"):
        found = encoder.encode(["dog", "unknown"])
    np.testing.assert_allclose(found[1], encoder.vectors.mean(axis=0), rtol=1e-6)


def test_key_tells_everything_that_changes_the_embeddings() -> None:
    vectors = np.eye(2)
    encoders = [
        StaticEncoder(["a", "b"], vectors),
        StaticEncoder(["b", "a"], vectors),
        StaticEncoder(["a", "b"], 2 * vectors),
        StaticEncoder(["a", "b"], vectors, counts={"a": 1}),
        StaticEncoder(["a", "b"], vectors, counts={"a": 2, "b": 1}),
        StaticEncoder(["a", "b"], vectors, counts={"a": 1}, sif_a=0.1),
    ]
    assert len({str(encoder.key()) for encoder in encoders}) == len(encoders)
    assert StaticEncoder(["a", "b"], vectors).key() == encoders[0].key()


def test_it_feeds_the_store() -> None:
    encoder: Encoder = StaticEncoder(["a", "b"], np.eye(2))
    batches: list[int] = []
    encoder.encode(["a"] * 2000, on_batch=batches.append)
    assert sum(batches) == 2000
    assert len(batches) > 1
    store = MemoryStore(encoder)
    np.testing.assert_array_equal(store.embeddings(["a b", "b"]), [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 1 2 3", "b 1 2"], ":2: a word and 2 numbers; allowed: a word and 3 numbers"),
        (["a 1 2 3", "b 1 2 3 4"], ":2: a word and 4 numbers; allowed: a word and 3 numbers"),
        (["a 1 2 3", ""], ":2: a word and 0 numbers; allowed: a word and 3 numbers"),
        (["2 3", "a 1 2 3", "b 1 2 x"], ":3: 'x' is not a number; allowed: a word and 3 numbers"),
        (["a 1 2", "b 1 nan"], ":2: a value is NaN or infinite; allowed: 2 finite numbers"),
        (["a 1 2", "b 1 1e99"], ":2: a value is NaN or infinite; allowed: 2 finite numbers"),
        (["word"], ":1: 1 fields and no number at the end; allowed: a word and its numbers"),
        (["3 2", "a 1 2"], ": 1 rows of word vectors; allowed: 3 or more"),
        ([], ": the file is empty"),
    ],
)
def test_bad_files_name_file_and_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(UserError, match=f"^{re.escape(str(path) + message)}$"):
        StaticEncoder.from_file(path)


def test_undecodable_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"a 1 2\nna\xefve 1 2\n")
    with pytest.raises(UserError, match=r"latin\.txt:2: byte 0xef at position 3 is not UTF-8; allowed: UTF-8 text"):
        StaticEncoder.from_file(path)
    cut = write(tmp_path, *LINES * 50, name="cut.txt.gz")
    cut.write_bytes(cut.read_bytes()[:-12])
    with pytest.raises(UserError, match=r"cut\.txt\.gz:\d+: not a complete gzip file"):
        StaticEncoder.from_file(cut)
    with pytest.raises(UserError, match="no such file; the folder"):
        StaticEncoder.from_file(tmp_path / "nothing.txt")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 words and vectors of the shape \(2, 2\); allowed: \(V, D\)"):
        StaticEncoder(["a"], np.eye(2))
    with pytest.raises(ValueError, match="1 of 2 words come twice; allowed: each once"):
        StaticEncoder(["a", "a"], np.eye(2))
    with pytest.raises(UserError, match="sif_a: received 0; allowed: a number above 0"):
        StaticEncoder(["a", "b"], np.eye(2), sif_a=0)
    with pytest.raises(UserError, match="counts: received no word; allowed: at least one occurrence"):
        StaticEncoder(["a", "b"], np.eye(2), counts={})
    with pytest.raises(UserError, match="max_words: received 0; allowed: 1 or more"):
        StaticEncoder.from_file(write(tmp_path, *LINES), max_words=0)
