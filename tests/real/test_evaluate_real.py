"""evaluate and reproduce on real data: the held figures of the two real encoders, through the command line."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from flowbert.cli import main
from flowbert.data.sts import TASKS
from flowbert.reproduction.published import published_rows

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    # Three dimensions of all-MiniLM-L6-v2 and one direction of minilm-mlm's last layer do not vary.
    pytest.mark.filterwarnings("ignore:whitening:flowbert.errors.FlowbertWarning"),
    pytest.mark.filterwarnings("ignore:encoder .* ends in Normalize:flowbert.errors.FlowbertWarning"),
    pytest.mark.filterwarnings("ignore:alignment of:flowbert.errors.FlowbertWarning"),
]

YEARS = 5
EXPECTED: dict[tuple[str, str, str, str], list[float]] = {
    ("all-MiniLM-L6-v2", "last", "raw", "all"): [72.37, 80.60, 75.60, 85.39, 78.99, 82.03, 77.15],
    ("all-MiniLM-L6-v2", "last", "raw", "mean"): [70.00, 74.46, 75.94, 83.40, 81.32],
    ("all-MiniLM-L6-v2", "last", "raw", "wmean"): [71.06, 78.97, 77.23, 83.84, 81.21, 82.03, 77.15],
    ("all-MiniLM-L6-v2", "last", "whitening", "wmean"): [68.61, 77.56, 76.00, 81.36, 80.93, 80.27, 67.94],
    ("minilm-mlm", "last", "raw", "wmean"): [51.81, 46.64, 56.98, 65.10, 60.79, 57.90, 59.81],
    ("minilm-mlm", "first_last", "raw", "all"): [44.84, 54.25, 50.18, 70.53, 61.25, 57.08, 60.37],
    ("minilm-mlm", "first_last", "raw", "wmean"): [55.61, 50.93, 59.65, 67.97, 62.25, 57.08, 60.37],
    ("minilm-mlm", "first_last", "whitening", "all"): [49.55, 75.13, 65.79, 66.45, 68.34, 69.48, 59.46],
    ("minilm-mlm", "first_last", "whitening", "wmean"): [62.84, 69.63, 69.25, 74.00, 72.51, 69.48, 59.46],
    ("minilm-mlm", "first_last", "whitening-128", "wmean"): [62.05, 68.22, 67.22, 73.36, 70.57, 66.62, 61.92],
}
TOLERANCE = 0.02


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["rows"]
    return rows


def test_held_figures_from_one_run(real: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    encoders = ",".join(str(real / "models" / name) for name in ("all-MiniLM-L6-v2", "minilm-mlm"))
    more = [
        "--encoder.path",
        encoders,
        "--encoder.layers",
        "last,first_last",
        "--methods",
        "raw,whitening,whitening-128",
    ]
    data = ["--tasks", ",".join(TASKS), "--senteval", str(real / "data" / "senteval"), "--uniformity_limit", "500"]
    main(["evaluate", *more, *data, "--output", str(output)])
    found: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows_of(output):
        key = (Path(row["encoder"]).name, row["layers"], row["method"], row["aggregation"])
        found.setdefault(key, {})[row["task"]] = 100 * row["spearman"]
        assert row["low"] < row["spearman"] < row["high"]
    for key, expected in EXPECTED.items():
        assert [found[key][task] for task in TASKS[: len(expected)]] == pytest.approx(expected, abs=TOLERANCE)


def test_gold_against_edit_distance_in_words_on_dev(real: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    data = ["--tasks", "STSB", "--senteval", str(real / "data" / "senteval"), "--split", "dev", "--lexical", "words"]
    main(["evaluate", "--methods", "raw", *data, "--bootstrap", "0", "--output", str(output)])
    (gold,) = [row["value"] for row in rows_of(output) if row["method"] == "gold"]
    assert 100 * gold == pytest.approx(-24.61, abs=0.1)


def test_reproduce_runs_end_to_end_with_another_encoder(
    real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    encoder, senteval = str(real / "models" / "minilm-mlm"), str(real / "data" / "senteval")
    nli = str(real / "data" / "nli" / "snli-dev.jsonl")
    data = ["--senteval", senteval, "--nli", nli, "--tasks", "STS16", "--bootstrap", "200"]
    main(["reproduce", "--table", "li2020-2", "--encoder.path", encoder, *data, "--output", str(output)])
    printed = capsys.readouterr().out
    assert "published (context only)" in printed
    assert printed.count("cannot be run") == 1  # the row of word vectors
    methods = {row["method"].split(":")[0] for row in rows_of(output)}
    assert methods == {"raw", "flow"}


def test_a_local_copy_of_the_published_encoder_is_compared(real: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    encoder, senteval = str(real / "models" / "all-MiniLM-L6-v2"), str(real / "data" / "senteval")
    (row,) = (row.id for row in published_rows("mteb"))
    data = ["--senteval", senteval, "--tasks", "STS13,STS16,STSB", "--bootstrap", "200"]
    main(["reproduce", "--rows", row, "--encoder.path", encoder, *data, "--output", str(output)])
    with output.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert [record["task"] for record in records] == ["STS13", "STS16", "STSB", "Avg"]
    assert all(abs(float(record["difference"])) < 0.02 for record in records)
    assert all(record["inside"] == "True" for record in records)
