"""The printed tables, the page and results.csv, parsed back, equal the long frame cell by cell."""

import csv
import random

import pytest

from flowbert.experiments.intervals import RESULT_COLUMNS
from flowbert.experiments.results import Results
from flowbert.reports.content import read_content
from flowbert.reports.result_tables import GEOMETRY, print_results
from reports.rows import row, sts_rows

METHODS = ("raw", "whitening", "flow", "zca")
TASKS = ("STS16", "STSB", "SICKR")
SHOWN = {
    "Spearman x 100 (wmean)": ("spearman", "wmean"),
    "Spearman x 100 (all)": ("spearman", "all"),
    "Spearman x 100 (mean)": ("spearman", "mean"),
}

COLUMN_NAMES = (
    *TASKS,
    "average",
    "QNLI auc",
    *(name.replace("_", " ") for name in GEOMETRY),
)


def random_rows(seed):
    """Rows in any order, with ties and without some of the cells."""
    rng = random.Random(seed)
    rows = []
    for method in METHODS:
        for task in TASKS:
            value = rng.choice([0.1234, 0.25, 0.5, 0.5, 0.87654])
            rows += sts_rows(method, task, value)
        rows.append(row(method, "average", "spearman", "wmean", rng.random()))
        rows.append(row(method, "QNLI", "auc", "all", rng.choice([0.5, 0.75])))
    if seed % 3:
        rng.shuffle(rows)
    return [each for each in rows if rng.random() > 0.2 * (seed % 2)]


def expected(rows):
    """The cells of the long frame."""
    cells = {}
    titles = {metric: title for title, metric in SHOWN.items()}
    geometry: dict[tuple[str, str], list[float]] = {}
    for each in rows:
        metric, method, task = each["metric"], each["method"], each["task"]
        if metric in GEOMETRY:
            geometry.setdefault((method, metric), []).append(each["value"])
        elif metric == "spearman":
            title = titles[metric, each["aggregation"]]
            cells[title, method, task] = f"{100 * each['value']:.2f}"
        else:
            figure = f"{100 * each['value']:.2f}"
            cells["Other metrics", method, f"{task} {metric}"] = figure
    for (method, metric), values in geometry.items():
        mean = sum(values) / len(values)
        cells["Other metrics", method, metric.replace("_", " ")] = f"{mean:.2f}"
    return cells


def printed(text):
    """The cells of printed tables, by the places of their columns."""
    cells = {}
    title = ""
    names: list[str] = []
    ends = []
    for line in text.splitlines():
        if line.endswith(" split"):
            title, names = line.rpartition(",")[0], []
        elif title and line.startswith(" ") and not names:
            known = [name for name in COLUMN_NAMES if name in line]
            names = sorted(known, key=line.index)
            ends = [line.index(name) + len(name) for name in names]
        elif title and names and line and not line.startswith(" "):
            label = line.split()[0]
            if label not in METHODS:
                title = ""
                continue
            starts = [len(label), *ends[:-1]]
            for name, start, end in zip(names, starts, ends, strict=True):
                value = line[start:end].strip()
                if value:
                    cells[title, label, name] = value
    return cells


@pytest.mark.parametrize("seed", range(6))
def test_printed_cells_are_those_of_the_frame(seed, capsys):
    rows = random_rows(seed)
    print_results(Results(rows, {}))
    folded = ("Spearman x 100 (all)", "Spearman x 100 (mean)")
    wanted = {key: text for key, text in expected(rows).items() if key[0] not in folded}
    assert len(wanted) > 20
    assert printed(capsys.readouterr().out) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_the_csv_file_is_the_frame(seed, tmp_path):
    results = Results(random_rows(seed), {})
    results.save(tmp_path / "results.json")
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    assert list(records[0]) == list(RESULT_COLUMNS)
    for name in ("method", "task", "metric", "aggregation"):
        assert [record[name] for record in records] == results.frame[name].tolist()
    values = [float(record["value"]) for record in records]
    assert values == results.frame["value"].tolist()


def test_arguments_of_a_comparison_are_settings(tmp_path):
    record = {"config": {"seeds": [0, 1]}}
    Results(random_rows(0), record).save(tmp_path / "results.json")
    settings = read_content(tmp_path / "results.json").settings["value"].to_dict()
    assert settings == {"config.seeds": "[0, 1]"}
