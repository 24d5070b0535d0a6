"""evaluate: an interval beside every figure, whatever its kind, in every file; differences; the seed decides."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from flowbert.cli import main
from flowbert.data.sample import sample_nli, sample_pairs

METHODS = ("raw", "whitening-8")
KINDS = {
    "retrieval": ("recall@1", "recall@5", "recall@10", "mrr@10"),
    "answers": ("auc", "map", "mrr"),
    "probe": ("accuracy",),
    "lexical": ("edit_distance_words",),
}
REFERENCES = {"lexical": ("gold",), "probe": ("majority",)}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "mine.tsv"
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("test")[:120]]
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    drawn = sample_pairs("test")[:60]
    lines = [f'"{a}",1,"{b}"' for a, b, _ in drawn]
    lines += [f'"{drawn[n][0]}",0,"{drawn[n - k][1]}"' for n in range(60) for k in (1, 2, 3)]
    path.write_text("\n".join(["qtext,label,atext", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "labelled.tsv"
    lines = ["\t".join(row) for number, row in enumerate(sample_nli()[:600]) if number % 4]
    path.write_text("\n".join(["premise\thypothesis\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def evaluate(output: Path, *more: str) -> list[dict[str, Any]]:
    main(["evaluate", "--methods", ",".join(METHODS), "--bootstrap", "60", "--output", str(output), *more])
    rows: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["rows"]
    return rows


def others(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {(r["metric"], r["method"]): (r["low"], r["value"], r["high"]) for r in rows if r["metric"] != "spearman"}


def asked(kind: str, pairs: Path, answers: Path, labelled: Path) -> list[str]:
    return {
        "retrieval": ["--retrieval", str(pairs), "--positive_above", "3"],
        "answers": ["--answers", str(answers)],
        "probe": ["--probe", str(labelled)],
        "lexical": ["--tasks", str(pairs), "--lexical", "words"],
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_and_difference_has_an_interval_in_every_file(
    kind: str, pairs: Path, answers: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = others(evaluate(tmp_path / "r.json", *asked(kind, pairs, answers, labelled)))
    printed = capsys.readouterr().out
    markdown = (tmp_path / "r.md").read_text(encoding="utf-8")
    named = (*METHODS, *REFERENCES.get(kind, ()))
    assert set(found) == {(metric, method) for metric in KINDS[kind] for method in named}
    for low, value, high in found.values():
        assert low <= value <= high
        assert low < high
        note = f"[{100 * low:.1f}, {100 * high:.1f}]"
        assert note in printed
        assert f"{100 * value:.2f} {note}" in markdown
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["metric"] != "spearman"]
    kept = {(line["metric"], line["method"]): (float(line["low"]), float(line["high"])) for line in lines}
    assert kept == {key: (low, high) for key, (low, _, high) in found.items()}
    task = {"answers": "answers", "probe": "labelled"}.get(kind, "mine")
    for metric in KINDS[kind]:
        assert f"Differences x 100 with 95% confidence intervals, {task} {metric}: " in markdown
    decides = {"retrieval": "mine mrr@10", "answers": "answers auc", "probe": "labelled accuracy"}.get(kind, "mine")
    assert f"corpus target, {decides}: " in printed


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_a_second_run_finds_the_same(
    kind: str, pairs: Path, answers: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = asked(kind, pairs, answers, labelled)
    first = evaluate(tmp_path / "r.json", *more)
    assert evaluate(tmp_path / "r.json", *more) == first
    count = len(METHODS) * (2 if kind == "lexical" else 1)  # the same pairs by gold score and by edit distance
    assert f"{count} of {count} figures are in" in capsys.readouterr().err
    assert evaluate(tmp_path / "again.json", *more) == first
    seeded = others(evaluate(tmp_path / "r.json", *more, "--bootstrap_seed", "1"))
    assert {key: value for key, (_, value, _) in seeded.items()} == {
        key: value for key, (_, value, _) in others(first).items()
    }
    assert seeded != others(first)


def test_without_resamples_there_are_no_intervals(pairs: Path, tmp_path: Path) -> None:
    rows = evaluate(tmp_path / "r.json", "--retrieval", str(pairs), "--positive_above", "3", "--bootstrap", "0")
    assert all((row["low"], row["high"]) == (None, None) for row in rows)
