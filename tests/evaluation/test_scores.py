"""Values of items in files: exact, joined over processes, refused for other items."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation.grid import Cell, Source
from flowbert.evaluation.scores import ScoreFolder, load_items, save_items
from flowbert.methods import Method
from flowbert.tasks import STS

SOURCE = Source({"encoder": "e", "layers": "l", "pooling": "p"}, {}, 1, lambda _: np.zeros((1, 1)), lambda _: None)
VALUES = np.random.default_rng(0).normal(size=5)


def cell(method: str, task: str = "A") -> Cell:
    texts = tuple("abcde")
    return Cell(
        SOURCE, STS(STSTask(task, {"test": [Subset(task, texts, texts, np.arange(5.0))]})), Method(method), None, None
    )


def test_saved_and_loaded_exactly(tmp_path: Path) -> None:
    items = {"raw": np.array([1 / 3, np.nan]), "whitening:shrinkage=0.1": np.arange(6.0).reshape(2, 3)}
    loaded = load_items(save_items(tmp_path / "items.safetensors", items))
    assert list(loaded) == list(items)
    for name, values in items.items():
        np.testing.assert_array_equal(loaded[name], values)


def test_another_process_reads_and_adds(tmp_path: Path) -> None:
    raw, zca = cell("raw"), cell("zca")
    first, second = ScoreFolder(tmp_path), ScoreFolder(tmp_path)
    first.add(raw, VALUES)
    second.add(zca, VALUES + 1)
    assert first.has(raw)
    assert not ScoreFolder(tmp_path).has(raw)
    first.save()
    second.save()
    again = ScoreFolder(tmp_path)
    assert again.has(raw)
    assert again.has(zca)
    found = again.items([raw, zca])
    assert list(found) == [raw.setting, zca.setting]
    np.testing.assert_array_equal(found[raw.setting], VALUES)
    np.testing.assert_array_equal(found[zca.setting], VALUES + 1)
    other = cell("raw", "B")
    assert not again.has(other)
    assert not again.items([other])


def test_other_items_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"items of A have the shape \(3,\); needed: \(5,\)"):
        ScoreFolder(tmp_path).add(cell("raw"), VALUES[:3])


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "items.safetensors"
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: no such file; needed: a saved table"):
        load_items(path)
    path.write_text("nothing")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: the table of item scores is damaged"):
        load_items(path)
    save_file({"x": np.zeros(1)}, path)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: format None .*allowed: 'flowbert-item-scores-3'"):
        load_items(path)
