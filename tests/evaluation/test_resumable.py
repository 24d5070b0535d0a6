"""A run that ends at any moment: each row in its file has its similarities, and the next run ends like a whole one."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation import resumable
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell, Source
from flowbert.evaluation.results import load_results
from flowbert.evaluation.resumable import ResumableRun
from flowbert.evaluation.scores import ScoreFolder
from flowbert.methods import Method
from flowbert.tasks import STS

TEXTS = tuple("abcdefgh")


class KilledError(BaseException):
    """What ends the process: from then on nothing more reaches the disk."""


def cells() -> list[Cell]:
    vectors = dict(zip(TEXTS, np.random.default_rng(0).normal(size=(8, 3)), strict=True))
    source = Source(
        {"encoder": "e", "layers": "l", "pooling": "p"},
        {},
        3,
        lambda texts: np.array([vectors[text] for text in texts]),
        lambda _: None,
    )
    tasks = [STS(STSTask(name, {"test": [Subset(name, TEXTS[:4], TEXTS[4:], np.arange(4.0) + 1.5)]})) for name in "AB"]
    methods = [Method("raw"), Method("cubes", ready=lambda x: x**3), Method("fifths", ready=lambda x: x**5)]
    return [Cell(source, task, method, None, None) for method in methods for task in tasks]


@pytest.mark.parametrize(
    ("seconds", "whole_run"),
    [
        (-1.0, 13),  # after each of six figures: its similarities and the results; and once more the results
        (1e9, 3),  # at the end alone: the similarities of two tasks, the results
    ],
)
@pytest.mark.parametrize("writes", range(14))
def test_every_row_has_its_similarities(
    writes: int, seconds: float, whole_run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, output = cells(), tmp_path / "r.json"
    whole = ResumableRun(tmp_path / "whole.json", mine, {})
    whole.compute()
    left, replace = [writes], os.replace

    def until_killed(*paths: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        replace(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(resumable, "_SAVE_SECONDS", seconds)
        patch.setattr(os, "replace", until_killed)
        with pytest.raises(KilledError) if writes < whole_run else nullcontext():
            ResumableRun(output, mine, {}).compute()
    there = {row.setting for row in load_results(output)[0]} if output.exists() else set()
    scores = ScoreFolder(tmp_path / "r.scores")
    assert there == {cell.setting for cell in mine if cell.setting in there and scores.has(cell)}
    again = ResumableRun(output, mine, {})
    assert set(again.by_setting) == there
    again.compute()
    assert again.rows() == whole.rows()
    for cell in mine:
        np.testing.assert_array_equal(
            again.scores.items([cell])[cell.setting], whole.scores.items([cell])[cell.setting]
        )


@pytest.mark.parametrize("kept", ["scores", "sample"])
def test_there_is_no_row_of_which_something_could_not_be_kept(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    run = ResumableRun(tmp_path / "r.json", cells(), {})
    run.sample = SimpleNamespace(of=lambda *_: 0, keep=lambda *_: None)  # type: ignore[assignment]
    monkeypatch.setattr(getattr(run, kept), {"scores": "add", "sample": "keep"}[kept], fail)
    with pytest.raises(KeyboardInterrupt):
        run.compute()
    assert not run.by_setting
    assert not run.output.exists()


def test_processes_that_were_asked_for_other_figures_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = cells()
    run = ResumableRun(tmp_path / "r.json", mine[:4], {})
    for code, settings in ((code_digest(), [mine[5].setting]), ("other", [mine[0].setting])):
        first = SimpleNamespace(broadcast=lambda _, sent=(code, settings): sent)
        monkeypatch.setattr(resumable, "current", lambda first=first: first)
        with pytest.raises(UserError, match="processes: this one was asked for other figures than the first"):
            run.compute()


def test_a_file_is_written_once_for_many_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    replace = os.replace

    def counting(first: Any, second: Any) -> None:
        written.append(Path(second).suffix)
        replace(first, second)

    monkeypatch.setattr(os, "replace", counting)
    ResumableRun(tmp_path / "r.json", cells(), {}).compute()
    assert sorted(written) == [".json", ".safetensors", ".safetensors"]
