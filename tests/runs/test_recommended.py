"""The recommended map: one definition in code and configs, and a row of its own beside a fit."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from flowbert import SentenceEncoder
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.evaluation.results import Row, load_results
from flowbert.io.run_folder import RunFolder
from flowbert.modules import WhiteningModule
from flowbert.runs import recommended
from flowbert.runs.fit import Run

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", ["recommended", "recommended_whitening"])
def test_configs_say_the_same(name: str) -> None:
    content = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert content["encoder"]["layers"] == recommended.LAYERS
    assert content["encoder"]["pooling"] == recommended.POOLING
    assert f"whitening:shrinkage={content['whitening']['shrinkage']}" == recommended.METHOD


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=900))
    folder = RunFolder(tmp_path / "run")
    return Run(WhiteningModule(encoder), data, folder, recommended=True, enable_progress_bar=False)


def settings(rows: Sequence[Row]) -> set[tuple[str, str, str]]:
    return {(row.method, row.layers, row.pooling) for row in rows}


def test_it_is_a_row_beside_a_fit(run: Run) -> None:
    rows = run.fit()
    assert settings(rows) == {
        ("raw", "first_last", "mean"),
        ("whitening", "first_last", "mean"),
        (recommended.METHOD, recommended.LAYERS, f"{recommended.POOLING} of target"),
    }
    assert settings(load_results(run.folder.results)[0]) == settings(rows)


def test_what_the_fit_gave_is_not_lost_with_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> list[Row]:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("flowbert.runs.fit"), "recommended_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert {row.method for row in load_results(run.folder.results)[0]} == {"raw", "whitening"}


def test_a_test_run_has_no_such_row(run: Run) -> None:
    assert {row.method for row in run.measure("test")} == {"raw", "whitening"}
