"""Two machines, as torchrun starts them: two node ranks on this one."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

FIT = """
import sys, flowbert
nodes, folder = int(sys.argv[1]), sys.argv[2]
trainer = {"accelerator": "cpu", "devices": 1, "num_nodes": nodes, "max_epochs": 1}
flowbert.fit(
    "flow", corpus="builtin-sample", max_sentences=300, baseline="none", bootstrap=0,
    data={"batch_size": 64 // nodes}, model={"noise": 0.0}, run_dir=folder,
    trainer=trainer | {"enable_progress_bar": False},
)
"""


def run_on(nodes, folder, *words):
    """Run a script with arguments on so many machines."""
    cache = {"FLOWBERT_CACHE": str(folder / "cache")}
    environment = os.environ | cache | {"OMP_NUM_THREADS": "1"}
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = [
            "--master_addr",
            "localhost",
            "--master_port",
            str(free.getsockname()[1]),
        ]
    launch = ["-m", "torch.distributed.run", "--nnodes", "2", *address, "--node_rank"]
    starts = [[*launch, str(rank)] for rank in range(nodes)] if nodes > 1 else [[]]
    running = [
        subprocess.Popen([sys.executable, *start, *words], cwd=folder, env=environment)
        for start in starts
    ]
    assert [each.wait(timeout=300) for each in running] == [0] * nodes


def test_a_fit_is_that_of_one_process(tmp_path):
    (tmp_path / "fit.py").write_text(FIT)
    for nodes in (1, 2):
        run_on(nodes, tmp_path, "fit.py", str(nodes), str(nodes))
    one, two = (load_file(tmp_path / x / "model/flow.safetensors") for x in "12")
    for name, value in one.items():
        # Sums of float32 numbers in another order, in five steps.
        torch.testing.assert_close(two[name], value, rtol=1e-5, atol=1e-6)
