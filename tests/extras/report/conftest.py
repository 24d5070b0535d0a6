"""A run with everything that a page shows, small and made up."""

import pandas as pd
import pytest
import yaml

from extras.analysis.samples import METHODS, make_analysis
from extras.report.rows import row, sts_rows
from flowbert.experiments.results import Results
from flowbert.extras.report.content import read_run_files


def metrics():
    """Two validations and four logged steps of a flow."""
    rows = pd.DataFrame({"step": [9, 19, 29, 39], "epoch": 0})
    rows["step/bits_per_dim"] = [-1.0, -1.2, -1.3, -1.4]
    rows["step/nll"] = 4 * rows["step/bits_per_dim"]
    rows["step/learning_rate"] = 0.001
    for name, spearman in (("raw", [0.3, 0.3]), ("flow", [0.4, 0.5])):
        measured = {
            "spearman_wmean": spearman,
            "alignment": spearman,
            "uniformity": [-1, -1],
        }
        for metric, values in measured.items():
            rows[f"{name}/STSB/dev/{metric}"] = pd.Series(values, [1, 3])
    return rows


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A finished run folder."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    gains = {
        "flow": {"gain": 9.0, "gain_low": 8.0, "gain_high": 10.0, "choice": "tied"},
        "whitening": {"gain": 9.5, "gain_low": 8.0, "gain_high": 11.0, "choice": "use"},
    }
    rows = [
        item
        for method in METHODS
        for item in sts_rows(method, "STSB", **gains.get(method, {}))
    ]
    rows.append(row("flow", "QNLI", "auc", "all", 0.7))
    record = {
        "verdicts": ["use whitening"],
        "differences": {
            "STSB": {"methods": ["a", "b"], "cells": [["", "1.0"], ["-1.0", ""]]}
        },
        "versions": {"torch": "2.13"},
    }
    Results(rows, record).save(folder / "results.json")
    make_analysis().to_json(folder / "analysis.json")
    metrics().to_csv(folder / "metrics.csv", index=False)
    config = {"encoder": {"path": "bert"}, "model": {"noise": 0.05}, "seed": None}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="session")
def run(folder):
    return read_run_files(folder)
