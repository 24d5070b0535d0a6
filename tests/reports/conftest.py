"""A run with everything that a page shows, small and made up."""

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from flowbert.analysis import Sample, analyze_sample
from flowbert.encoders import SentenceEncoder
from flowbert.experiments.results import Results
from flowbert.flows import Glow
from flowbert.reports.content import read_content
from reports.rows import row, sts_rows

METHODS = ("raw", "whitening", "flow")


def analysis():
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    cosines = {method: rng.uniform(-0.5, 0.5, 40) for method in METHODS}
    flow = Glow(6, levels=1)
    flow.initialize(x)
    sample = Sample(
        [f"sentence number {i}" * (1 + i % 7) for i in range(60)],
        {"raw": x + 2, "whitening": x - x.mean(dim=0), "flow": x},
        {"STSB test": (rng.uniform(0, 4.9, 40), cosines)},
        encoder=SentenceEncoder("builtin-sample"),
        tokens=20,
        flows={"flow": flow},
        fitting=x[:40],
        held_out=x[40:],
    )
    return analyze_sample(sample, {"encoder": "bert", "corpus": "target"})


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
    rows = [item for method in METHODS for item in sts_rows(method, "STSB")]
    rows.append(row("flow", "QNLI", "auc", "all", 0.7))
    record = {
        "verdicts": ["use whitening"],
        "differences": {
            "STSB": {"methods": ["a", "b"], "cells": [["", "1.0"], ["-1.0", ""]]}
        },
        "versions": {"torch": "2.13"},
    }
    Results(rows, record).save(folder / "results.json")
    analysis().to_json(folder / "analysis.json")
    metrics().to_csv(folder / "metrics.csv", index=False)
    config = {"encoder": {"path": "bert"}, "model": {"noise": 0.05}, "seed": None}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="session")
def content(folder):
    return read_content(folder)
