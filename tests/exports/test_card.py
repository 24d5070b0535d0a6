"""README.md of an export: what hub and readers take from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from exports.models import TEXTS, fit_map
from flowbert import __version__
from flowbert.encoders import SentenceEncoder
from flowbert.evaluation.results import COLUMNS, Results
from flowbert.exports import export
from flowbert.exports.card import model_card
from flowbert.model import Model
from flowbert.tasks import AVERAGE

SETTINGS: dict[str, Any] = {
    "name": "owner/name",
    "format": "sentence-transformers",
    "method": "learned-removal",
    "difference": 3e-7,
}


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder("builtin-sample", layers="first_last", max_length=9)


@pytest.fixture(scope="module")
def model(encoder: SentenceEncoder) -> Model:
    fitted = fit_map("learned-removal-2:center=False", encoder.encode(TEXTS))
    return Model(encoder, fitted)


def results_of(encoder: SentenceEncoder) -> Results:
    """Figures of three methods, and one of another encoder."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | encoder.columns()
    row |= {"seed": None, "split": "test", "corpus": "target", "pairs": 9}
    row |= {"supervised": False, "metric": "spearman", "aggregation": "all"}
    rows = []
    values = {"raw": 0.5, "learned-removal-2:center=False": 0.625, "zca": 0.75}
    for method, value in values.items():
        interval = {"value": value, "low": value - 0.125, "high": value + 0.125}
        rows.append(row | interval | {"method": method, "task": "STSB"})
        rows.append(rows[-1] | {"task": AVERAGE, "low": np.nan, "high": np.nan})
    rows.append(rows[2] | {"layers": "last", "value": 0.875})
    return Results(rows, {})


def test_with_results(model: Model, encoder: SentenceEncoder) -> None:
    text = model_card(model, **SETTINGS, results=results_of(encoder), license="mit")
    data: Any = ModelCard(text).data
    assert (data.license, data.library_name) == ("mit", "sentence-transformers")
    (measured,) = data.eval_results
    assert measured.metric_value == 0.625
    assert measured.dataset_type == "STSB"
    assert "| STSB | test | learned-removal | target | 62.50 [50.0, 75.0] |" in text
    assert "| average | test | learned-removal | target | 62.50 |" in text
    assert "| STSB | test | raw | target | 50.00 [37.5, 62.5] |" in text
    assert "zca" not in text
    assert "87.5" not in text


def test_without_results(model: Model) -> None:
    text = model_card(model, **SETTINGS)
    assert "Figures" not in text
    assert "model-index" not in text
    for part in (
        "first_last",
        "learned-removal-2:center=False",
        "3.0e-07",
        __version__,
    ):
        assert part in text
    assert "| map | none |" in model_card(Model(model.encoder), **SETTINGS)


def test_its_snippet_runs(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    folder = export(model, tmp_path / "name")
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["embeddings"].shape == (2, 128)


def test_figures_of_a_run_with_a_trained_encoder(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    encoder.save(tmp_path / "run" / "model" / "encoder")
    results = results_of(encoder)
    results.frame = results.frame[results.frame["layers"] == "first_last"]
    results.frame["method"] = results.frame["method"].replace("zca", "simcse")
    results.save(tmp_path / "run" / "results.json")
    text = (export(tmp_path / "run", tmp_path / "to") / "README.md").read_text()
    assert "| STSB | test | simcse | target | 75.00 [62.5, 87.5] |" in text
    assert "learned-removal" not in text
