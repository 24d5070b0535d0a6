"""What a Trainer checks before it starts any process."""

import pytest

from flowbert.training.trainer import make_trainer
from helpers import refused

SMALL = {"accelerator": "cpu", "logger": False, "devices": 1}


def make(**options):
    return make_trainer(SMALL | options, [], enable_checkpointing=False)


@pytest.mark.parametrize("name", ["NODE_RANK", "GROUP_RANK"])
def test_machines_that_nobody_starts(name, monkeypatch):
    for each in ("NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(each, raising=False)
    refused(r"^trainer\.num_nodes: received 2; .*torchrun", make, num_nodes=2)
    monkeypatch.setenv(name, "0")
    assert make(num_nodes=2).num_nodes == 2
