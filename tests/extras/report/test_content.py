"""What a run wrote, and the frames of its pictures."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from extras.report.rows import results, row, sts_rows
from flowbert.experiments.summary import Summary
from flowbert.extras.report.content import (
    RunFiles,
    join_runs,
    read_metrics,
    read_run_files,
)
from flowbert.extras.report.page import gains_by_task
from flowbert.extras.report.plots import layer_scores, plane, training


def write_log(path, steps, loss, **columns):
    pd.DataFrame({"step": steps, "step/loss": loss, **columns}).to_csv(
        path, index=False
    )


def test_logs_of_resumed_runs_are_joined(tmp_path):
    write_log(tmp_path / "metrics-2.csv", [1, 2], 2.0, **{"val/loss": 7.0})
    write_log(tmp_path / "metrics-10.csv", [2, 3], 10.0)
    write_log(tmp_path / "metrics.csv", [3, 4], 11.0)
    write_log(tmp_path / "metrics_copy.csv", [9], 0.0)
    metrics = read_metrics(tmp_path)
    # Lightning counts the steps from 0; at equal steps the later file wins.
    assert metrics["step/loss"].to_dict() == {2: 2.0, 3: 10.0, 4: 11.0, 5: 11.0}
    assert metrics["val/loss"].to_dict()[3] == 7.0


def test_a_run_is_read(run, folder):
    assert run.options["encoder"] == {"path": "bert"}
    assert run.options["versions"] == {"torch": "2.13"}
    assert "verdicts" not in run.options
    assert "spectra" in run.analysis.frames
    assert not read_run_files(folder, analyzed=False).analysis.frames


def test_joined_runs_show_the_settings_that_differ(run):
    other = run.options | {"model": {"noise": 1}, "limit": 300}
    empty = RunFiles("c", run.results[:0], options=run.options)
    joined = join_runs({"a": run, "b": replace(run, options=other), "c": empty})
    differing = joined.settings.loc[["limit", "model.noise"]]
    assert differing.values.tolist() == [["", "300", ""], ["0.05", "1", "0.05"]]
    assert len(joined.settings) == 2
    assert list(joined.results["run"].unique()) == ["a", "b"]
    assert {"raw (a)", "raw (b)"} < set(Summary(joined.results, {}).rows["label"])


def test_averages_of_several_runs_are_over_equal_tasks():
    def run(*names):
        average = row("raw", "average", "spearman", "wmean", 0.6, pairs=200)
        frame = results(*(sts_rows("raw", name, 0.6) for name in names), [average])
        return RunFiles("", frame)

    first = run("STS13", "STS16")
    joined = join_runs({"a": first, "b": run("STS13", "STS12")})
    assert set(joined.results["task"]) == {"STS13", "STS16", "STS12"}
    assert set(joined.results["metric"]) == {"spearman"}
    assert joined.about["verdicts"][-1].startswith("The runs have different tasks")
    # Both runs on all tasks: as each run has them.
    equal = join_runs({"a": first, "b": first})
    assert (equal.results["task"] == "average").sum() == 2
    # A task of the same name and other pairs is another one.
    other = replace(first, results=first.results.assign(pairs=99))
    assert "average" not in set(join_runs({"a": first, "b": other}).results["task"])


def test_what_was_logged_more_than_once_is_drawn():
    """The test split is measured once, after the training; tasks may be paths."""
    steps = pd.Index([10, 20], name="step")
    names = ["step/nll", "step/bits_per_dim", "flow/a/b.csv/dev/spearman_wmean"]
    metrics = pd.DataFrame(0.5, steps, [*names, "flow/a/b.csv/dev/alignment"])
    metrics["flow/a/b.csv/test/spearman_wmean"] = pd.Series([0.5], steps[1:])
    frame = training(metrics)
    assert frame.groupby("measure", sort=False)["value"].first().to_dict() == {
        "bits_per_dim": 0.5,
        "a/b.csv dev, Spearman \N{MULTIPLICATION SIGN} 100": 50.0,
    }
    assert frame["step"].tolist() == [10, 20] * 2
    assert training(read_metrics(Path("none"))).empty


def test_a_finding_without_a_better_method():
    rows = sts_rows("raw", "STSB", choice="use")
    finding = Summary(results(rows), {}).finding
    assert finding == "No method is significantly better than raw on bert"
    better = {"gain": 2.0, "gain_low": 1.0, "gain_high": 3.0, "choice": "tied"}
    reading = sts_rows("raw", "STSB", layers="1", role="reading", **better)
    assert Summary(results(rows, reading), {}).finding == (
        f"{finding}; better without a map: layers 1"
    )


def test_scores_of_single_layers_are_lines_over_the_layers():
    layers = ["0", "1", "10", "2", "0,1"]
    rows = [sts_rows("raw", "STSB", layers=each, role="method") for each in layers]
    frame = results(sts_rows("raw", "STSB", layers="last"), *rows)
    scores = layer_scores(Summary(frame, {}))
    assert scores["layers"].tolist() == ["0", "1", "2", "10", "last"]
    assert set(scores["line"]) == {"raw"}
    few = frame[frame["layers"].isin(["0", "last"])]
    assert layer_scores(Summary(few, {})).empty


def test_the_plane_has_means_over_the_tasks():
    frame = results(sts_rows("raw", "STS13", 0.5), sts_rows("raw", "STS16", 0.7))
    (point,) = plane(Summary(frame, {})).to_dict("records")
    assert point["label"] == "raw"
    assert (point["alignment"], point["uniformity"]) == pytest.approx((0.6, -0.4))


def test_gains_by_task_say_where_an_average_comes_from():
    rows = sts_rows("raw", "STS13") + sts_rows("raw", "STS16")
    rows += sts_rows("zca", "STS13", 0.51) + sts_rows("zca", "STS16", 0.7, choice="use")
    summary = Summary(results(rows), {})
    assert gains_by_task(summary) == {"zca": "STS16 +20.0, STS13 +1.0"}
