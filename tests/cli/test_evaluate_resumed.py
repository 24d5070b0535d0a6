"""A second run into a results file: earlier rows stay, those of other code are told apart, nothing is lost."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowbert.cli import main
from flowbert.evaluation import code
from flowbert.evaluation.results import Row, load_results, merge_results, write_results


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Call ``setattr(code, "version", ...)`` on it to change what computes the figures."""
    yield monkeypatch
    monkeypatch.undo()
    code.code_digest.cache_clear()


def evaluate(output: Path, pairs: Path, methods: str, *more: str) -> list[Row]:
    main(["evaluate", "--tasks", str(pairs), "--output", str(output), "--methods", methods, "--bootstrap", "50", *more])
    return load_results(output)[0]


def test_a_second_run_keeps_the_first_ones_rows(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    first = evaluate(output, pairs, "raw,standardization", "--lexical", "words")
    capsys.readouterr()
    second = evaluate(output, pairs, "raw,nulling-2", "--encoder.layers", "first_last")
    assert second[6:] == first
    assert {row.layers for row in second[:6]} == {"first_last"}
    printed = capsys.readouterr().out
    assert f"{len(first)} figures of earlier runs stay in the results file\n" in printed
    assert "standardization" not in printed  # what is printed and ranked is what was asked for
    assert "layers first_last" in printed
    again = evaluate(output, pairs, "raw,nulling-2", "--encoder.layers", "first_last")
    assert sorted(map(repr, again)) == sorted(map(repr, second))


def test_intervals_are_of_this_run(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    assert all(row.low < row.high for row in evaluate(output, pairs, "raw"))
    assert not any(row.low < row.high for row in evaluate(output, pairs, "raw", "--bootstrap", "0"))


def test_what_other_code_computed_is_computed_anew_if_asked_for(
    pairs: Path, tmp_path: Path, other_code: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    first = evaluate(output, pairs, "raw,standardization")
    (old,) = {row.code for row in first}
    # As if the first run had computed something else:
    write_results(output, [replace(row, value=0.5) for row in first], {})
    other_code.setattr(code, "version", lambda library: f"next {library}")
    code.code_digest.cache_clear()
    capsys.readouterr()
    second = evaluate(output, pairs, "raw,nulling-2")
    told = capsys.readouterr()
    assert "1 figures of" in told.err
    assert "of other code and computed anew" in told.err
    assert "3 figures of earlier runs stay in the results file, 3 of them by other code" in told.out
    by_method = {row.method: row for row in second}
    assert {name: row.code == old for name, row in by_method.items()} == {
        "raw": False,
        "nulling-2": False,
        "standardization": True,
    }
    assert by_method["raw"].spearman == first[0].spearman
    assert by_method["standardization"].spearman == 0.5
    assert len(second) == 9
    assert "standardization" not in (tmp_path / "r.md").read_text(encoding="utf-8")


def row(number: int, **changes: Any) -> Row:
    plain = Row("raw", "e", "last", "mean", "none", "T", "test", "all", 0.5, 9, 0.1, -2.0, 0.3, setting=f"s{number}")
    return replace(plain, **changes)


def test_processes_lose_no_row_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "r.json"

    def write(number: int) -> None:
        for step in range(5):
            merge_results(path, [row(10 * number + step)], {})

    with ThreadPoolExecutor(6) as pool:  # a lock of its own each, as processes have
        list(pool.map(write, range(6)))
    assert {found.setting for found in load_results(path)[0]} == {f"s{10 * n + s}" for n in range(6) for s in range(5)}


def test_rows_of_older_files_load(tmp_path: Path) -> None:
    path = write_results(tmp_path / "r.json", [row(1)], {})
    content = json.loads(path.read_text())
    for name in ("reason", "code", "setting"):
        del content["rows"][0][name]
    path.write_text(json.dumps(content))
    (old,) = load_results(path)[0]
    assert (old.reason, old.code) == ("", "")
    assert len(merge_results(path, [row(1)], {})) == 2
