"""Fits under two processes: the figures are those of what they saved, and of one process."""

import numpy as np
import pytest

from equivalence.ways import assert_same, rows_of
from flowbert.model import Model

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning"),
]

TWO = {"devices": 2, "strategy": "ddp_fork"}


@pytest.fixture(autouse=True)
def _no_ranks(monkeypatch):
    """Lightning leaves its variables behind."""
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_a_flow(lab):
    # The noise of a process is its own; a batch is divided among them.
    baseline = "whitening:shrinkage=0.1"
    options = {"model": {"noise": 0.0}, "baseline": baseline}
    run = lab.run("flow", data={"batch_size": 32}, trainer=TWO, **options)
    rows = rows_of(run.results, "flow")
    saved = lab.compare({"flow": Model.load(run.folder)})
    assert_same(rows_of(saved, "flow", ("corpus", "seed")), rows)
    assert_same(rows_of(lab.measured(run), "flow"), rows)
    one = lab.run("flow", data={"batch_size": 64}, **options).results
    rival, expected = (rows_of(each, baseline) for each in (run.results, one))
    # Sums of float32 numbers in another order.
    np.testing.assert_allclose(rival["value"], expected["value"], rtol=0, atol=1e-6)
    one = rows_of(one, "flow")
    assert_same(rows.drop(columns="value"), one)
    # Gradients in float32 summed in another order for 15 steps move parameters by 1e-5
    # (tests/training/test_processes.py); figures are means of smooth functions of the vectors, and
    # two neighbours that change ranks among 60 pairs move Spearman by 12 / (60 * 3599) = 6e-5.
    np.testing.assert_allclose(rows["value"], one["value"], rtol=0, atol=1e-4)
