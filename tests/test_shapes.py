"""The shapes that public objects and functions take and give, each by a table."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer import modules as library

import flowbert
from encoders.tiny import SENTENCES, write_tiny
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.extras.views import ViewsEncoder

LISTS = (list, tuple, np.array, pd.Series, iter)


@pytest.fixture(scope="module")
def embedders(tmp_path_factory):
    """What has ``encode``, by name."""
    folder = tmp_path_factory.mktemp("embedders")
    write_tiny(folder / "bert")
    words = folder / "words.txt"
    words.write_text("the 1 2\ndog 3 -4\na 5 6\ncat -7 8\nmat 9 10\nété 1 1")
    encoder = flowbert.SentenceEncoder(folder / "bert")
    views: Any = [{"layers": 0}, {"layers": "last", "pooling": "cls"}]
    parts = [library.Transformer(str(folder / "bert")), library.Pooling(16, "mean")]
    whitening = flowbert.Whitening(n_components=3, shrinkage=0.5)
    whitening.fit(encoder.encode(SENTENCES))
    return {
        "encoder": encoder,
        "views": ViewsEncoder(folder / "bert", views=views),
        "words": flowbert.WordVectors(words),
        "library": SentenceTransformerEncoder(SentenceTransformer(modules=parts)),
        "raw model": flowbert.Model(encoder),
        "whitened": flowbert.Model(encoder, whitening),
    }


KINDS = ("encoder", "views", "words", "library", "raw model", "whitened")


@pytest.mark.parametrize("kind", KINDS)
def test_encode(kind, embedders):
    embedder = embedders[kind]
    vectors = embedder.encode(SENTENCES)
    count, dim = len(SENTENCES), embedder.get_sentence_embedding_dimension()
    assert vectors.shape == (count, dim) == (count, embedder.dim)
    assert vectors.dtype == np.float32
    # Batches of other sizes: 168 u of float32, u = 6e-8.
    check_close = partial(
        assert_allclose, rtol=0, atol=1e-5 * float(np.abs(vectors).max())
    )
    for shape in LISTS:
        assert_array_equal(embedder.encode(shape(SENTENCES)), vectors)
    assert embedder.encode([]).shape == (0, dim)
    one = embedder.encode(SENTENCES[0])
    assert one.shape == (dim,)
    check_close(one, vectors[0])
    check_close(embedder.encode(SENTENCES, batch_size=2), vectors)
    tensor = embedder.encode(SENTENCES, convert_to_tensor=True)
    assert_array_equal(tensor.numpy(), vectors)
    assert tensor.device == embedder.device == torch.device("cpu")
    tensors = embedder.encode(SENTENCES, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert all(map(torch.equal, tensors, tensor))
    shorter = embedder.encode(SENTENCES, truncate_dim=2, normalize_embeddings=True)
    lengths = np.linalg.norm(vectors[:, :2], axis=1, keepdims=True)
    assert_allclose(shorter, vectors[:, :2] / lengths, rtol=1e-6)
    cosines = embedder.similarity(vectors, tensor[:2])
    assert_allclose(cosines, util.cos_sim(vectors, tensor[:2]), atol=1e-6)
    assert embedder.similarity(one, one).shape == (1, 1)
    assert embedder.to("cpu") is embedder


TEXTS = [
    f"the {word} {' '.join(SENTENCES[number % 3].split()[:number])}"
    for word in ("dog", "cat", "mat")
    for number in range(1, 5)
]


@pytest.mark.parametrize("in_memory", [True, False])
def test_corpora(in_memory, embedders, tmp_path, monkeypatch):
    """A path and sentences in memory; the other shapes by load_corpus, which all call.

    ``compare`` in tests/experiments/test_effects.py.
    """
    file = tmp_path / "own.txt"
    file.write_text("\n".join(TEXTS))
    corpus = pd.Series(TEXTS, index=range(9, 21)) if in_memory else file
    words: Any = embedders["words"]
    run = {"encoder": words.path, "run_dir": tmp_path / "run"}
    flowbert.fit("centering", corpus=corpus, **run)
    fitted: Any = flowbert.Model.load(tmp_path / "run").map
    assert_allclose(fitted.center_, words.encode(TEXTS).mean(axis=0), rtol=1e-6)
    monkeypatch.setattr("flowbert.extras.analysis.analyze._FEWEST_SENTENCES", 2)
    measured: Any = flowbert.analyze(words, "raw", corpus=corpus, measures="sentences")
    assert set(measured.frames["sentences"]["sentence"]) < set(TEXTS)
    advice = flowbert.advise(embedders["encoder"], corpus)
    shown = "SENTENCES.txt" if in_memory else file
    assert f"--corpus {shown}" in str(advice)


def test_objects_show_what_they_are(embedders):
    corpus = flowbert.load_corpus(TEXTS)
    assert repr(corpus) == f"Corpus(memory, 12 sentences, {TEXTS[0]!r}, ...)"
    assert repr(flowbert.load_task("SAMPLE")) == "STS(SAMPLE, test split, 1000 items)"
    model = repr(embedders["whitened"])
    assert model.startswith("Model(SentenceEncoder(")
    assert model.endswith(
        "bert, layers last, pooling mean, max_length 128, dim 16), "
        "Whitening(n_components=3, shrinkage=0.5))"
    )


def test_results_show_themselves_and_go_into_papers(embedders, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    frame = pd.DataFrame({"sentence1": TEXTS[:6], "sentence2": TEXTS[6:]})
    options: dict[str, Any] = {"tasks": frame.assign(score=range(6)), "bootstrap": 20}
    methods = {"raw": "raw", "my_map": "centering"}
    cache = flowbert.EmbeddingCache(False)
    results = flowbert.compare(embedders["words"], methods, cache=cache, **options)
    (verdict,) = results.verdicts
    assert repr(results).startswith(verdict)
    assert verdict in results._repr_html_()
    header, _, *rows = results.to_markdown().splitlines()
    assert header == "|  | pairs |"
    latex = results.to_latex()
    assert r"my\_map &" in latex
    (used,) = results.frame.query("choice == 'use'")["method"]
    (bold,) = (row for row in rows if "**" in row)
    assert bold.startswith(f"| {used} | **")
    (bold,) = (row for row in latex.splitlines() if r"\bfseries" in row)
    assert bold.startswith(used.replace("_", r"\_"))
