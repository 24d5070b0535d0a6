"""The scripts of examples/ on a few sentences."""

import importlib

import pytest

from flowbert.data.sample import sample_corpus

PLANTED = ("Whales sing under the northern ice.", "Whales sing below the northern ice.")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sentences.txt"
    lines = sorted(set(sample_corpus()))[::100]
    path.write_text("\n".join([*lines, *PLANTED]), encoding="utf-8")
    return str(path)


def run(name, *words):
    return importlib.import_module(f"examples.{name}").main([*words])


def test_search(file):
    pytest.importorskip("faiss")
    found = run("search", PLANTED[0], "--input", file, "--count", "2")
    assert found == [*PLANTED]


def test_duplicates(file):
    (first, *_) = run("duplicates", "--input", file, "--count", "3")
    assert set(first) == set(PLANTED)


def test_clusters(file):
    shown = run("clusters", "--input", file, "--clusters", "40")
    assert len(shown) == 40
    assert any(set(PLANTED) <= set(sentences) for sentences in shown)
