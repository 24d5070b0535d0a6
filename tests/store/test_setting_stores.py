"""Stores filled by one pass: each sentence is encoded once for all parts, also after an interruption."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowbert.store.base import Floats
from flowbert.store.embedding_store import EmbeddingStore
from flowbert.store.setting_stores import SettingStores


class Wide:
    """Settings of two dimensions: a (length, words) and b (letters e, letters o); counts what it encodes."""

    layer_dim = 2

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.selected: Sequence[str] = ()

    def select(self, settings: Sequence[str]) -> None:
        self.selected = settings

    def key_of(self, setting: str) -> dict[str, str]:
        return {"part": setting}

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        self.encoded += sentences
        if on_batch is not None:
            on_batch(len(sentences))
        of: dict[str, Callable[[str], list[int]]] = {
            "a": lambda s: [len(s), len(s.split())],
            "b": lambda s: [s.count("e"), s.count("o")],
        }
        rows = [[figure for each in self.selected for figure in of[each](s)] for s in sentences]
        return np.array(rows, dtype=np.float32).reshape(len(sentences), -1)


def stores(wide: Wide, root: Path) -> SettingStores:
    return SettingStores(wide, lambda part: EmbeddingStore(root, part))


def fill(found: SettingStores, sentences: Sequence[str]) -> None:
    found.expect(sentences, ["a", "b"])
    found.fill()


def test_what_another_process_lacks_is_kept_once(tmp_path: Path) -> None:
    mine = stores(Wide(), tmp_path)
    fill(mine, ["one"])
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.shard")}
    told: Any = SimpleNamespace(
        global_rank=0, world_size=1, broadcast=lambda _: [["one", "two"], ["one"]], barrier=lambda _: None
    )
    mine.expect(["one", "two"], ["a", "b"])
    mine.fill(told)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert mine.embeddings(["one", "two"], ["a"]).tolist() == [[3, 1], [3, 1]]


def test_each_sentence_is_encoded_once(tmp_path: Path) -> None:
    wide = Wide()
    mine = stores(wide, tmp_path)
    fill(mine, ["one", "two words"])
    assert mine.embeddings(["one", "two words", "one"], ["a"]).tolist() == [[3, 1], [9, 2], [3, 1]]
    assert mine.embeddings(["two words"], ["b"]).tolist() == [[0, 2]]
    assert mine.embeddings(["one"], ["a", "b"]).tolist() == [[2, 1]]
    assert sorted(wide.encoded) == ["one", "two words"]


def test_a_later_run_reads_what_is_there(tmp_path: Path) -> None:
    fill(stores(Wide(), tmp_path), ["one", "three"])
    again = Wide()
    assert stores(again, tmp_path).embeddings(["three", "four"], ["b"]).tolist() == [[2, 0], [0, 1]]
    assert again.encoded == ["four"]


def test_an_interruption_keeps_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbert.store.setting_stores._AT_ONCE", 2)

    class Interrupted(Wide):
        def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
            if self.encoded:
                raise KeyboardInterrupt
            return super().encode(sentences, on_batch=on_batch)

    with pytest.raises(KeyboardInterrupt):
        fill(stores(Interrupted(), tmp_path), ["a", "bb", "ccc", "dddd"])
    again = Wide()
    fill(stores(again, tmp_path), ["a", "bb", "ccc", "dddd"])
    assert again.encoded == ["ccc", "dddd"]


def test_a_setting_is_computed_and_kept_for_its_own_sentences_only(tmp_path: Path) -> None:
    wide = Wide()
    mine = stores(wide, tmp_path)
    mine.expect(["one"], ["a"])
    mine.expect(["one", "two words"], ["b"])
    mine.fill()
    assert wide.encoded == ["one", "two words"]
    mine.embeddings(["two words"], ["a"])
    assert wide.encoded == ["one", "two words", "two words"]
