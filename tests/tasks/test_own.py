"""A task of one's own, in a file outside of the package: named by its import path."""

import sys
from pathlib import Path

import numpy as np
import pytest

from flowbert.tasks import load_scoring, load_task
from helpers import refused

CODE = (Path(__file__).parents[2] / "examples/extend/task.py").read_text(
    encoding="utf-8"
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_tasks.py").write_text(CODE, encoding="utf-8")
    words = np.random.default_rng(0).choice(list("abcdefgh"), (40, 6))
    lines = [
        f"{' '.join(row[:3])},{' '.join(row[:2])} {row[5]},{index % 2}"
        if index % 2
        else f"{' '.join(row[:3])},{' '.join(row[3:])},0"
        for index, row in enumerate(words)
    ]
    lines.insert(0, "question1,question2,is_duplicate")
    (tmp_path / "quiz.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_tasks", raising=False)
    return f"own_tasks.Duplicates:{tmp_path}/quiz.csv"


def test_results_score_it_only_where_its_module_is_imported(source: str) -> None:
    task = load_task(source)
    assert task.kind == "own_tasks.Duplicates"
    items = np.random.default_rng(0).normal(size=task.count)
    state = task.state()
    assert load_scoring(state).score(items) == task.score(items)
    del sys.modules["own_tasks"]
    refused(r"own_tasks.*imported before", load_scoring, state)


def test_its_digest_is_that_of_its_data(source: str, tmp_path: Path) -> None:
    digest = load_task(source).digest
    assert load_task(source).digest == digest
    data = tmp_path / "quiz.csv"
    written = data.read_text(encoding="utf-8")
    data.write_text(written.replace(",0\n", ",1\n", 1), encoding="utf-8")
    assert load_task(source).digest != digest
