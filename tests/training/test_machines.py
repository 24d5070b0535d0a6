"""Two machines, as torchrun starts them: two node ranks on this one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import flowbert

pytestmark = pytest.mark.slow

ROOT = Path(flowbert.__file__).parents[1]
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
    paths = {"PYTHONPATH": str(ROOT), "FLOWBERT_CACHE": str(folder / "cache")}
    environment = os.environ | paths | {"OMP_NUM_THREADS": "1"}
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


def test_encode_writes_one_file(tmp_path):
    text = [f"a dog runs {number} times" for number in range(3001)]
    (tmp_path / "a.txt").write_text("\n".join(text), encoding="utf-8")
    command = [str(ROOT / "train.py"), "encode", "--input", "a.txt", "--device", "cpu"]
    for nodes in (1, 2):
        options = ["--num_nodes", str(nodes), "--output", f"{nodes}.npy"]
        run_on(nodes, tmp_path, *command, *options)
    one, two = (np.load(tmp_path / f"{nodes}.npy") for nodes in (1, 2))
    # Batches of other sizes: 168 u of float32, as in tests/test_model.py.
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-5 * np.abs(one).max())
    assert not list(tmp_path.glob(".*partial*"))
