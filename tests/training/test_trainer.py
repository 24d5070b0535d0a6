"""How many processes a Trainer may have, before it starts any."""

import pytest

from flowbert.training import trainer as module
from flowbert.training.trainer import make_trainer
from helpers import refused

SMALL = {"accelerator": "cpu", "logger": False, "devices": 1}


def make(**options):
    return make_trainer(SMALL | options, [], [], enable_checkpointing=False)


def test_a_processor_for_each_process(monkeypatch):
    monkeypatch.setattr(module, "available_processors", lambda: 3)
    assert make(devices=3).num_devices == 3
    refused(r"^trainer\.devices: received 99; expected 1 to 3", make, devices=99)


@pytest.mark.parametrize("name", ["NODE_RANK", "GROUP_RANK"])
def test_machines_that_nobody_starts(name, monkeypatch):
    for each in ("NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(each, raising=False)
    refused(r"^trainer\.num_nodes: received 2; .*torchrun", make, num_nodes=2)
    monkeypatch.setenv(name, "0")
    assert make(num_nodes=2).num_nodes == 2
