"""The scripts of examples/ on a few sentences."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from examples import duplicates
from flowbert import Model, SentenceEncoder, Whitening, encode
from flowbert.data.sample import sample_corpus, sample_encoder_path

PLANTED = ("Whales sing under the northern ice.", "Whales sing below the northern ice.")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sentences.txt"
    lines = sorted(set(sample_corpus()))[::100]
    path.write_text("\n".join([*lines, *PLANTED]))
    return str(path)


def run(name, *words):
    return importlib.import_module(f"examples.{name}").main([*words])


def test_import_bert_whitening(tmp_path):
    encoder = SentenceEncoder(layers="first_last", pooling="mean")
    rows = 2 * encoder.encode(sample_corpus()[:300]).astype(np.float64)
    u, s, _ = np.linalg.svd(
        np.cov(rows.T)
    )  # as the official code, of a sum of two layers
    kernel, bias = u[:, :16] / np.sqrt(s[:16]), -rows.mean(axis=0, keepdims=True)
    np.savez(tmp_path / "w.npz", kernel=kernel, bias=bias)
    words = [str(tmp_path / "w.npz"), str(tmp_path / "run"), "--scale=2"]
    run("import_bert_whitening", *words, "--layers=first_last", "--pooling=mean")
    expected = (2 * encoder.encode(PLANTED) + bias) @ kernel
    vectors = Model.load(tmp_path / "run").encode(PLANTED)
    # Vectors are float32, u = 6e-8.
    bound = 1e-6 * float(np.abs(expected).max())
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=bound)


def test_search_encodes_or_reads_written_vectors(file, tmp_path, capsys):
    """Rows of the file are those of the sentences, in their order, repeated ones too."""
    pytest.importorskip("faiss")
    lines = Path(file).read_text().splitlines()
    Path(file).write_text("\n".join([PLANTED[1], *lines]))
    model, vectors = str(tmp_path / "model"), str(tmp_path / "vectors.npy")
    Model(SentenceEncoder()).save(model)
    encode(input=file, model=model, output=vectors)
    words = ["search", PLANTED[0], "--input", file, "--model", model, "--count", "3"]
    found = run(*words, "--vectors", vectors)
    assert found == run(*words)
    assert found[:2] == [*PLANTED]
    # These are read: the nearest are now the farthest.
    np.save(vectors, -np.load(vectors))
    assert not {*found} & {*run(*words, "--vectors", vectors)}
    np.save(vectors, np.load(vectors)[1:])
    with pytest.raises(SystemExit):
        run(*words, "--vectors", vectors)
    count = len(lines)
    assert f"has {count} rows; expected {count + 1}" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:whitening.*are few")
@pytest.mark.parametrize("name", ["search", "duplicates", "clusters"])
def test_a_few_sentences(name, tmp_path):
    if name == "search":
        pytest.importorskip("faiss")
    path = tmp_path / "few.txt"
    few = ["a dog runs", "a cat sleeps", "the sky is blue", "two men ride"]
    path.write_text("\n".join(few))
    found = run(name, *["dog"][: name == "search"], "--input", str(path))
    if name == "duplicates":
        assert len({frozenset(pair) for pair in found}) == len(found) == 6
    else:
        shown = found if name == "search" else [text for (text,) in found]
        assert sorted(shown) == sorted(few)


def test_nearest_pairs_of_all_blocks():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(23, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = duplicates.nearest_pairs(vectors, 9, block=5)
    rows, columns = np.triu_indices(23, k=1)
    cosines = (vectors @ vectors.T)[rows, columns]
    best = np.argsort(-cosines)[:9]
    assert [pair[1:] for pair in pairs] == [
        *zip(rows[best], columns[best], strict=True)
    ]
    assert [pair[0] for pair in pairs] == pytest.approx(cosines[best])


def test_pairs_and_groups_of_a_file(file):
    (first, *_) = run("duplicates", "--input", file, "--count", "3")
    assert set(first) == set(PLANTED)
    shown = run("clusters", "--input", file, "--clusters", "40")
    assert len(shown) == 40
    assert any(set(PLANTED) <= set(sentences) for sentences in shown)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
def test_distill(file, tmp_path):
    pytest.importorskip("accelerate")
    sentences = Path(file).read_text().splitlines()
    encoder = SentenceEncoder(layers=0)
    whitening = Whitening(shrinkage=0.3).fit(encoder.encode(sentences))
    teacher = Model(encoder, whitening)
    teacher.save(tmp_path / "teacher")
    student = str(sample_encoder_path())

    def difference(model):
        """Mean squared difference of the cosines from those of the teacher."""
        rows = [
            x.encode(sentences, normalize_embeddings=True) for x in (model, teacher)
        ]
        cosines, expected = (x @ x.T for x in rows)
        return np.square(cosines - expected).mean()

    words = ["--teacher", f"{tmp_path}/teacher", "--student", student, "--input", file]
    run("distill", *words, "--output", f"{tmp_path}/out")
    before, after = map(SentenceTransformer, (student, f"{tmp_path}/out"))
    assert difference(after) < 0.5 * difference(before)
