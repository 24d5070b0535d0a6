"""results.json: what is written is read back, NaN is null, bad rows are named."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowbert.errors import UserError
from flowbert.evaluation.results import COLUMNS, Row, fingerprint, load_results, rows_of, write_results
from flowbert.tasks import TaskFigures

FIGURES = TaskFigures(
    task="STSB",
    split="test",
    all=0.5,
    mean=0.25,
    wmean=-0.125,
    pairs=3,
    subsets=({"name": "STSB", "pairs": 3, "spearman": 0.5},),
    alignment=0.2,
    positives=1,
    uniformity=-2.0,
    mean_cosine=0.1,
    sentences=5,
    uniformity_sentences=5,
)


def make_rows(figures: TaskFigures = FIGURES) -> list[Row]:
    return rows_of(
        figures.measured,
        method="flow",
        encoder="some/encoder",
        layers="first_last",
        pooling="mean",
        corpus="target",
        seed=1,
        layer_numbers=(1, 12),
    )


def test_three_rows_carry_their_aggregation() -> None:
    assert [(row.aggregation, row.spearman) for row in make_rows()] == [("all", 0.5), ("mean", 0.25), ("wmean", -0.125)]


def test_written_rows_are_read_back(tmp_path: Path) -> None:
    path = write_results(tmp_path / "new" / "results.json", make_rows(), fingerprint({"a": 1}, seed=7))
    rows, found = load_results(path)
    assert [repr(row) for row in rows] == [repr(row) for row in make_rows()]
    assert rows[0].subsets == ({"name": "STSB", "pairs": 3, "spearman": 0.5},)
    assert found["seed"] == 7
    assert list(json.loads(path.read_text())["rows"][0]) == list(COLUMNS)
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]


def test_nan_is_null_and_back(tmp_path: Path) -> None:
    path = write_results(tmp_path / "r.json", make_rows(replace(FIGURES, all=math.nan)), {"x": math.inf})
    content = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["rows"][0]["spearman"] is None
    assert content["fingerprint"]["x"] is None
    assert math.isnan(load_results(path)[0][0].spearman)


def test_fingerprint_says_what_a_figure_depends_on() -> None:
    found = fingerprint({"b": 1, "a": 2}, corpus_hash="c0ffee", device="cpu", seed=3)
    assert {"python", "torch", "pytorch-lightning", "transformers", "flowbert"} <= found["versions"].keys()
    assert None not in found["versions"].values()
    assert found["config_hash"] == fingerprint({"a": 2, "b": 1})["config_hash"]
    assert found["config_hash"] != fingerprint({"a": 2, "b": 2})["config_hash"]
    assert (found["corpus_hash"], found["device"], found["seed"]) == ("c0ffee", "cpu", 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spearman": 50.0}, "row 1: spearman is 50.0; allowed: a number in"),
        ({"spearman": "0.5"}, "row 1: spearman is '0.5'; allowed: a number or null"),
        ({"aggregation": "wmeen"}, "did you mean 'wmean'"),
        ({"pairs": 1.5}, "pairs is 1.5"),
        ({"task": 3}, "task is 3; allowed: text"),
        ({"spearmen": 0}, "unknown field 'spearmen'.*did you mean 'spearman'"),
        ({"subsets": 3}, "subsets is 3; allowed: a list"),
        ({"value": "0.5"}, "value is '0.5'; allowed: a number or null"),
        ({"low": True}, "low is True; allowed: a number or null"),
        ({"metric": None}, "metric is None; allowed: text"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_results(tmp_path / "r.json", make_rows(), {})
    content = json.loads(path.read_text())
    content["rows"][0] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        load_results(path)


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(UserError, match=r"cannot be read \(No such file or directory\); needed: a results\.json"):
        load_results(path)
    for text, message in (("{", "not JSON"), ("[]", "holds list"), ('{"rows": [{}]}', "lacks")):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            load_results(path)


def test_value_and_interval_are_read_back_and_may_be_missing(tmp_path: Path) -> None:
    rows = [replace(row, low=0.1, high=0.9, supervised=True, setting="x") for row in make_rows()]
    found, _ = load_results(write_results(tmp_path / "r.json", rows, {}))
    assert [(row.value, row.low, row.high, row.setting) for row in found] == [(r.spearman, 0.1, 0.9, "x") for r in rows]
    assert found[0].shown_method == "flow*"
    content = json.loads((tmp_path / "r.json").read_text())
    for name in ("metric", "value", "low", "high", "supervised", "setting"):
        del content["rows"][0][name]
    (tmp_path / "old.json").write_text(json.dumps(content))
    (old, *_), _ = load_results(tmp_path / "old.json")
    assert (old.metric, old.value, old.setting) == ("spearman", 0.5, "")
    assert math.isnan(old.low)
