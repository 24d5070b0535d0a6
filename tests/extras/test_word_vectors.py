import gzip
from itertools import product
from unicodedata import normalize

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from flowbert.encoders import load_encoder
from flowbert.extras.word_vectors import WordVectors
from helpers import refused, warned

LINES = ["the 1 0 0", "dog 0 2 0", "runs 0 0 -4.5e-1", ". 1 1 1"]


def write(folder, *lines, name="vectors.txt"):
    path = folder / name
    text = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_mean_of_known_words(tmp_path):
    encoder = WordVectors(write(tmp_path, *LINES))
    vectors = encoder.encode(["The dog barks", "Runs."])
    assert vectors.dtype == np.float32
    assert_allclose(vectors, [[0.5, 1, 0], [0.5, 0.5, 0.275]])


def test_sif_by_hand(tmp_path):
    path = write(tmp_path, "the 1 0 0", "dog 0 1 0", "cat 0 0 1")
    encoder = WordVectors(path, pooling="sif:a=0.25", count_over=["the the the", "dog"])
    the, dog, cat = 0.25 / (0.25 + 0.75), 0.25 / (0.25 + 0.25), 1.0
    assert_allclose(
        encoder.encode(["the dog cat the"]), [[2 * the / 4, dog / 4, cat / 4]]
    )
    again = load_encoder(**encoder.describe(), token_weights=encoder.token_weights)
    assert again.identity == encoder.identity


def test_words_with_spaces_and_repeated_words(tmp_path):
    path = write(tmp_path, "a 1 2", ". . . 3 4", "at name@domain.com 5 6", "a 7 8")
    assert_array_equal(WordVectors(path).vectors, [[1, 2], [3, 4], [5, 6]])
    assert len(WordVectors(path, max_words=2).vectors) == 2
    assert len(WordVectors(path, max_words=9).vectors) == 3


@pytest.mark.parametrize("name", ["a.txt", "plain.vec", "packed.txt.gz"])
def test_every_layout_gives_the_same(name, tmp_path):
    plain = WordVectors(write(tmp_path, *LINES))
    headers = [[], ["4 3"], ["4\t3"]]
    for end, after, between, header in product(["", " ", "\r"], "\t ", "\t ", headers):
        lines = [line.replace(" ", after, 1) + end for line in LINES]
        lines = [line.replace(" ", between) for line in lines]
        other = WordVectors(write(tmp_path, *header, *lines, name=name))
        assert_array_equal(other.vectors, plain.vectors)
        assert other.identity == plain.identity
    several = WordVectors(write(tmp_path, "b\t3\t4", "New York\t1\t2"))
    assert list(several.words) == ["b", "New York"]


def test_words_with_capitals_are_looked_up_as_written(tmp_path):
    lines = ["Apple 1 0 0", "apple 0 1 0", "the 0 0 1"]
    cased = WordVectors(write(tmp_path, *lines))
    uncased = WordVectors(write(tmp_path, *lines[1:], name="uncased.txt"))
    texts = ["Apple", "apple", "APPLE", "The", "The Apple"]
    apple, other, the = cased.vectors
    expected = [apple, other, other, the, (apple + the) / 2]
    assert_array_equal(cased.encode(texts), expected)
    lower = [text.lower() for text in texts]
    assert_array_equal(uncased.encode(texts), uncased.encode(lower))
    assert cased.identity != uncased.identity
    # Words are counted as they are looked up.
    sif = WordVectors(cased.path, pooling="sif:a=0.5", count_over=texts[:3])
    assert sif.token_weights is not None
    assert sif.token_weights.tolist() == pytest.approx([0.6, 3 / 7, 1.0])


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_words_of_either_unicode_form(form, tmp_path):
    words = [normalize(form, f"{word} {n} 1") for n, word in enumerate(["café", "ång"])]
    encoder = WordVectors(write(tmp_path, *words))
    texts = [normalize(other, "Café ång") for other in ("NFC", "NFD")]
    assert_allclose(encoder.encode(texts), [[0.5, 1], [0.5, 1]])


def test_a_sentence_without_known_words_gets_the_mean(tmp_path):
    encoder = WordVectors(write(tmp_path, *LINES))
    with warned("1 of 2 sentences"):
        vectors = encoder.encode(["dog", "unknown"])
    assert_allclose(vectors[1], encoder.vectors.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (["a 1 2 3", "b 1 2"], "row 2: received 2 numbers; expected 3"),
        (
            ["2 3", "a 1 2 3", "b 1 2 x"],
            "row 3: 'x' is not a number",
        ),
        (["a  1 2"], "row 1: '' is not a number"),
        ([], "received 0 rows"),
    ],
)
def test_bad_files_name_file_and_row(lines, part, tmp_path):
    path = write(tmp_path, *lines)
    refused(f"^{path}: .*{part}", WordVectors, path)


def test_undecodable_and_missing_files(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"a 1 2\nna\xefve 1 2\n")
    cut = write(tmp_path, *LINES * 50, name="cut.txt.gz")
    cut.write_bytes(cut.read_bytes()[:-12])
    for bad in (path, cut, tmp_path / "nothing.txt"):
        refused(f"^{bad}: ", WordVectors, bad)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "cls"}, "^pooling: .*'cls'"),
        ({"pooling": "sif:cls=2"}, "^pooling: .*'sif:cls=2'"),
        ({"pooling": "sif"}, "^pooling: .*without sentences"),
        ({"max_words": 0}, "^max_words: .*received 0"),
    ],
)
def test_wrong_settings(settings, message, tmp_path):
    refused(message, WordVectors, write(tmp_path, *LINES), **settings)
