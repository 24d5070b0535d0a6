"""Tables of results."""

import math
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from extras.report.rows import results, row, sts_rows
from flowbert.experiments.labels import name_rows
from flowbert.experiments.results import Results
from flowbert.experiments.summary import Summary
from flowbert.experiments.verdict import Verdict
from flowbert.tasks.measures import METRICS, Metric
from flowbert.text_tables import print_lines, print_table

TEMPLATE = {"template": "it says {}"}
LONG = "depth=3:width=32:mixing=reverse:noise=0.0:schedule=constant:epochs=1"
NONE = dict.fromkeys(("encoder", "layers", "pooling"), "none")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [
                sts_rows("raw", "STSB"),
                sts_rows("whitening", "STSB", layers="0"),
                sts_rows("learned-removal", "STSB", supervised=True),
            ],
            ["raw", "whitening (0)", "learned-removal* (-1)"],
        ),
        (
            [
                sts_rows("raw", "STSB"),
                sts_rows("raw", "STSB", role="reading", **TEMPLATE),
                sts_rows("whitening", "STSB"),
                sts_rows("whitening", "STSB", **TEMPLATE),
            ],
            [
                "raw",
                "template 'it says {}'",
                "whitening (no template)",
                "whitening ('it says {}')",
            ],
        ),
        (
            [sts_rows(f"flow:levels={x}:{LONG}", "STSB") for x in (2, 3)],
            ["flow, levels 2", "flow, levels 3"],
        ),
        # What is advised has its own layers, as the reading without its map.
        (
            [
                sts_rows("raw", "STSB"),
                sts_rows("raw", "STSB", role="reading", layers="0"),
                sts_rows("advised: zca", "STSB", role="advised", layers="0"),
            ],
            ["raw", "layers 0", "advised: zca (0)"],
        ),
        # What a row lacks is no difference.
        (
            [
                sts_rows("raw", "STSB"),
                sts_rows("whitening", "STSB"),
                sts_rows("flow", "STSB", corpus="given"),
                sts_rows("gold", "STSB", **NONE),
            ],
            ["raw", "whitening", "flow", "gold"],
        ),
    ],
)
def test_labels_name_the_settings_that_differ(rows, expected):
    assert list(name_rows(results(*rows))["label"].unique()) == expected


def test_seeds_have_an_interval_and_a_deviation(capsys):
    values = enumerate([0.4, 0.5, 0.6])
    seeds = [sts_rows("flow", "STSB", value, seed=seed) for seed, value in values]
    mean = row("flow", "STSB", "spearman", "wmean", 0.5, std=0.1)
    frame = results(*seeds, [mean])
    figures = Summary(frame, {}).scores.set_index(["metric", "aggregation"])
    figure = figures.loc[("spearman", "wmean")]
    assert figure["value"] == pytest.approx(50)
    assert figure["std"] == pytest.approx(10)
    assert (figure["low"], figure["high"]) == pytest.approx((45, 55))
    Summary(frame, {}).print()
    assert "50.0 ±10.00 [45.0, 55.0]" in capsys.readouterr().out


def test_the_page_has_a_table_of_each_metric():
    frame = results(
        sts_rows("raw", "STSB", 0.4),
        [row("raw", "average", "spearman", "wmean", 0.5)],
        [row("raw", "STS12", "spearman", "MSRpar", 0.6)],
        [row(name, "quiz", "top_rank", "all", 0.8) for name in ("raw", "zca")],
    )
    tables = Summary(frame, {}).tables
    names = [
        "Spearman x 100",
        "Alignment",
        "Uniformity",
        "Mean cosine",
        "Top rank x 100",
    ]
    assert list(tables) == names
    # Equal columns are one, as the aggregations of a task without subsets are.
    columns = ["STSB", "average wmean", "STS12 MSRpar"]
    assert list(tables["Spearman x 100"]) == columns
    assert tables["Top rank x 100"]["quiz"]["zca"] == "80.00 [75.0, 85.0]"


def test_notes_say_what_is_shared_and_what_failed():
    frame = results(
        sts_rows("raw", "STSB"),
        sts_rows("zca", "STSB", math.nan, reason="no variance"),
        sts_rows("zca", "SICKR", math.nan, reason="no variance"),
    )
    lines = Summary(frame, {}).notes
    where = "corpus target (the sentences of each task)"
    assert lines[0] == f"encoder bert, layers -1, pooling mean, {where}"
    assert lines[-1] == "nan: zca on STSB, SICKR: no variance"


USED = {"gain": 9.0, "gain_low": 8.0, "gain_high": 10.0, "choice": "use"}


def test_a_score_is_bold_if_the_verdict_of_its_metric_uses_it():
    rows = [sts_rows(method, "STSB")[2] for method in ("raw", "flow")]
    others = [{**each, "metric": "accuracy", "aggregation": "all"} for each in rows]
    rows[1] |= USED
    others[0] |= USED
    lines = Results([*rows, *others], {}).to_markdown().splitlines()
    assert [("**" in line) for line in lines[2:]] == [False, True]


def test_a_notebook_shows_the_table_of_the_terminal_and_a_plot():
    rows = [sts_rows("raw", "STSB")[2], sts_rows("a<b", "STSB", 0.6, **USED)[2]]
    results = Results(rows, {"verdicts": ["use a<b"]})
    html = results._repr_html_()
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", html)
    assert [cell for cell in cells if not cell.startswith("&nbsp")] == [
        *("", "STSB", "over raw"),
        *("a&lt;b", "use", "60.0 [55.0, 65.0]", "+9.0 [8.0, 10.0]"),
        *("raw", "", "50.0 [45.0, 55.0]", ""),
    ]
    assert html.startswith("<b>use a&lt;b</b>")
    assert results.to_markdown().endswith(" |\n\nuse a\\<b")
    assert html.endswith(results.summary.notes[-1])
    ax = results.plot(Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a<b"]
    assert ax.collections[0].get_segments()[0].tolist() == [[8, 0], [10, 0]]


def test_a_cell_of_markdown_is_one_cell():
    names = ["views:maps=[a|b]", "a*b*", "two\nlines"]
    rows = [item for name in names for item in sts_rows(name, "STSB|x")]
    lines = Results(rows, {}).to_markdown().splitlines()
    assert len(lines) == 2 + len(names)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}


def test_a_metric_has_its_own_scale_and_direction(capsys, monkeypatch):
    metric = Metric("perplexity", sign=-1, scale=1, note="lower is better")
    monkeypatch.setitem(METRICS, "ppl", metric)
    values = {"raw": 30, "zca": 20, "flow": 25}
    rows = [row(x, "text", "ppl", "all", values[x], std=0.5) for x in values]
    drawn = np.array([[value, value - 1, value + 1] for value in values.values()])
    verdict = Verdict(list(values), drawn, metric=metric)
    assert (
        verdict.text
        == "use zca, 20.0, -10.0 [-10.0, -10.0] over raw; 2 methods compared"
    )
    assert verdict.table[1][2] == "-5.0 [-5.0, -5.0]"
    Results(rows, {}).summary.print()
    text = capsys.readouterr().out
    assert "Perplexity [95% interval]" in text
    assert re.findall("zca|flow|raw", text)[:3] == ["zca", "flow", "raw"]
    assert "perplexity: lower is better" in text
    assert "cost of the other" not in text  # the note of other metrics
    rows[1] |= USED | {"gain": -10.0, "aggregation": "macro"}
    summary = Summary(results([rows[1]]), {})
    assert summary.finding == "zca gains 10.0 points on bert"
    assert "Spearman" not in str(summary.notes)


def test_tables_fit_the_terminal(capsys, monkeypatch):
    tasks = [f"task{number}" for number in range(12)]
    gains = {("flow", "task0"): USED}
    groups = [
        sts_rows(method, task, encoder=encoder, **gains.get((method, task), {}))
        for encoder in ("bert", "roberta")
        for method in ("raw", "flow")
        for task in tasks
    ]
    run = Results([item for rows in groups for item in rows], {})
    run.summary.print()
    wide = capsys.readouterr().out.splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run.summary.print()
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    run.summary.print()
    narrow = capsys.readouterr().out
    assert "\x1b[1;32m" in coloured
    assert "\x1b" not in narrow
    lines = narrow.splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in wide if line.startswith("  flow")][:1]
    assert row.split()[:5] == ["flow", "use", "50.0", "[45.0,", "55.0]"]
    assert row.count("50.0") == 12
    blocks = lines.count("roberta")
    assert blocks > 1
    assert sum(line.count("50.0") for line in lines) == 4 * 12


def test_texts_fit_a_terminal_and_commands_can_be_pasted(monkeypatch, capsys):
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    command = (
        "flowbert encode --model runs/a --method 'views: a --b' --output vectors.npy"
    )
    print_lines([f"    {command}", "a path: /of-more/than/forty/characters/in-it/all"])
    *lines, path = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    pasted = "\n".join(lines[:-1]).replace("\\\n", "")
    assert shlex.split(pasted) == shlex.split(command)
    assert path == "/of-more/than/forty/characters/in-it/all"
    table = pd.DataFrame({"x": ["1" * 9], "y": ["2" * 9]}, ["a name of several words"])
    print_table(table, "")
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"{'x':>24}{'y':>11}",
        f"{'a name of':15}{'1' * 9}  {'2' * 9}",
        "several words",
        "",
    ]
