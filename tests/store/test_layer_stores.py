"""Stores filled by one pass: each sentence is encoded once for all parts, also after an interruption."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowbert.store.base import Floats
from flowbert.store.embedding_store import EmbeddingStore
from flowbert.store.layer_stores import LayerStores


class Wide:
    """Two parts of two dimensions: (length, words) and (letters e, letters o); counts what it encodes."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        self.encoded += sentences
        if on_batch is not None:
            on_batch(len(sentences))
        rows = [[len(s), len(s.split()), s.count("e"), s.count("o")] for s in sentences]
        return np.array(rows, dtype=np.float32).reshape(-1, 4)


def stores(wide: Wide, root: Path, names: str = "ab") -> LayerStores:
    return LayerStores(wide, 2, {name: {"part": name} for name in names}, lambda part: EmbeddingStore(root, part))


def test_each_sentence_is_encoded_once(tmp_path: Path) -> None:
    wide = Wide()
    mine = stores(wide, tmp_path)
    assert mine.embeddings(["one", "two words", "one"], ["a"]).tolist() == [[3, 1], [9, 2], [3, 1]]
    assert mine.embeddings(["two words"], ["b"]).tolist() == [[0, 2]]
    assert mine.embeddings(["one"], ["a", "b"]).tolist() == [[2, 1]]
    assert sorted(wide.encoded) == ["one", "two words"]


def test_a_later_run_reads_what_is_there(tmp_path: Path) -> None:
    stores(Wide(), tmp_path).add(["one", "three"])
    again = Wide()
    assert stores(again, tmp_path).embeddings(["three", "four"], ["b"]).tolist() == [[2, 0], [0, 1]]
    assert again.encoded == ["four"]


def test_an_interruption_keeps_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbert.store.layer_stores._AT_ONCE", 2)

    class Interrupted(Wide):
        def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
            if self.encoded:
                raise KeyboardInterrupt
            return super().encode(sentences, on_batch=on_batch)

    with pytest.raises(KeyboardInterrupt):
        stores(Interrupted(), tmp_path).add(["a", "bb", "ccc", "dddd"])
    again = Wide()
    stores(again, tmp_path).add(["a", "bb", "ccc", "dddd"])
    assert again.encoded == ["ccc", "dddd"]
