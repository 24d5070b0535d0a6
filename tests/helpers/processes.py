"""Runs of ``fit`` on several processes, as torchrun starts them: forked from one that has imported everything."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from helpers.runs import start_fit


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def start_fits(options: list[str], folder: Path, processes: int = 2) -> list[BaseProcess]:
    """One process for each rank; run folder, store and logs (``0.log``, ``1.log``, ...) lie in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    options = [*options, "--run_dir", str(folder / "run"), "--trainer.accelerator", "cpu"]
    options += ["--trainer.devices", str(processes), "--trainer.enable_progress_bar", "false"]
    shared = {"FLOWBERT_CACHE": str(folder / "cache")}
    if processes > 1:
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "NODE_RANK": "0"}
    started = []
    for rank in range(processes):
        with environment(**shared, **({"LOCAL_RANK": str(rank)} if processes > 1 else {})):
            started.append(start_fit(options, folder / f"{rank}.log"))
    return started


def fit_on(processes: int, options: list[str], folder: Path) -> Path:
    """The same, to its end; the run folder."""
    for rank, process in enumerate(start_fits(options, folder, processes)):
        process.join(300)
        assert process.exitcode == 0, (folder / f"{rank}.log").read_text()
    return folder / "run"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
