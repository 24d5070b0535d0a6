"""The recommended map: one definition in code and configs, and a row of its own beside a fit.

The sample's encoder never trained its [CLS], which is left out therefore.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from flowbert import SentenceEncoder
from flowbert.advice.choice import MAP_LAYERS, MAP_POOLING
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.errors import FlowbertWarning
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.evaluation.results import Row, load_results
from flowbert.io.run_folder import RunFolder
from flowbert.modules import WhiteningModule
from flowbert.runs import recommended
from flowbert.runs.compare import compare
from flowbert.runs.fit import Run
from flowbert.runs.fit_figures import intervals_of, joined

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", ["recommended", "recommended_whitening"])
def test_configs_say_the_same(name: str) -> None:
    content = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert content["encoder"]["layers"] == MAP_LAYERS
    assert content["encoder"]["pooling"] == MAP_POOLING[True]
    assert f"whitening:shrinkage={content['whitening']['shrinkage']}" == recommended.METHOD


def make_run(folder: Path, max_sentences: int = 900) -> Run:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=max_sentences))
    return Run(WhiteningModule(encoder), data, RunFolder(folder / "run"), recommended=True, enable_progress_bar=False)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def settings(rows: Sequence[Row]) -> set[tuple[str, str, str]]:
    return {(row.method, row.layers, row.pooling) for row in rows}


def test_it_is_a_row_beside_a_fit(run: Run) -> None:
    rows = run.fit()
    assert settings(rows) == {
        ("raw", "first_last", "mean"),
        ("whitening", "first_last", "mean"),
        (recommended.METHOD, MAP_LAYERS, MAP_POOLING[False]),
    }
    assert settings(load_results(run.folder.results)[0]) == settings(rows)
    by_method = {row.shown_method: row for row in rows if row.aggregation == "wmean"}
    averages = load_results(run.folder.results)[1]["averages"]["wmean"]
    expected = [
        [
            row.encoder,
            row.layers,
            row.pooling,
            "test",
            row.corpus,
            name,
            pytest.approx(row.low),
            pytest.approx(row.high),
        ]
        for name, row in by_method.items()
    ]
    assert averages == expected


def test_it_can_be_what_to_use(tmp_path: Path) -> None:
    run = make_run(tmp_path, max_sentences=60)
    with pytest.warns(FlowbertWarning, match="has rank 58"):  # too few for whitening without shrinkage
        run.fit()
    shown = f"{recommended.METHOD} ({MAP_LAYERS}, {MAP_POOLING[False]})"
    best, left_out = load_results(run.folder.results)[1]["verdicts"]
    assert best.startswith(f"SAMPLE: {shown} is better than raw by ")
    assert best.endswith(f". Use: {shown}")
    assert left_out == "left out of the average and the verdict: whitening (no figure on SAMPLE)"


def test_methods_of_a_fit_and_of_a_comparison_stand_on_the_same_resamples(run: Run) -> None:
    run.measure("test")
    fitted = intervals_of(run.datamodule.tasks, run.evaluation.figures)
    other = compare(EncoderSettings("builtin-sample", layers="first_last"), "raw")
    (by_measure,) = joined(fitted, other).replicates.values()
    for replicates in by_measure.values():
        assert replicates.methods == ("raw", "whitening", "raw (first_last, mean)")
        difference = replicates.difference("raw (first_last, mean)", "raw")
        assert (difference.value, difference.low, difference.high) == pytest.approx((0, 0, 0), abs=1e-6)


def test_what_the_fit_gave_is_not_lost_with_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("flowbert.runs.fit"), "recommended_comparison", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert {row.method for row in load_results(run.folder.results)[0]} == {"raw", "whitening"}


def test_a_test_run_has_no_such_row(run: Run) -> None:
    assert {row.method for row in run.measure("test")} == {"raw", "whitening"}
