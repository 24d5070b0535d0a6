"""evaluate and reproduce on real data: the held figures of the two real encoders, through the command line."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.held_figures import EXPECTED, TOLERANCE

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
