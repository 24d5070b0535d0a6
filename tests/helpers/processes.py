"""Commands on several processes, as torchrun starts them: forked from one that has imported everything."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from helpers.runs import start


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
    options = [*options, "--run_dir", str(folder / "run"), "--trainer.accelerator", "cpu"]
    options += ["--trainer.devices", str(processes), "--trainer.enable_progress_bar", "false"]
    return start_on(processes, ["fit", *options], folder)


def fit_on(processes: int, options: list[str], folder: Path) -> Path:
    """The same, to its end; the run folder."""
    ended(start_fits(options, folder, processes), folder)
    return folder / "run"


def start_on(processes: int, words: list[str], folder: Path) -> list[BaseProcess]:
    """A command, once for each rank; store and logs lie in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shared = {"FLOWBERT_CACHE": str(folder / "cache")}
    if processes > 1:
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "NODE_RANK": "0"}
        shared |= {"WORLD_SIZE": str(processes)}
    started = []
    for rank in range(processes):
        ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        with environment(**shared, **ranks):
            started.append(start(words, folder / f"{rank}.log"))
    return started


def run_on(processes: int, words: list[str], folder: Path) -> list[str]:
    """The same, to its end; what each process said."""
    ended(start_on(processes, words, folder), folder)
    return [(folder / f"{rank}.log").read_text() for rank in range(processes)]


def ended(processes: list[BaseProcess], folder: Path) -> None:
    """Wait for processes, all of which must end well."""
    for rank, process in enumerate(processes):
        process.join(300)
        assert process.exitcode == 0, (folder / f"{rank}.log").read_text()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
