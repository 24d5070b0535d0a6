"""Commands in processes of their own, and everything of two fits that must be equal."""

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from flowbert.evaluation.results import load_results

_PARTS = ("state_dict", "optimizer_states", "lr_schedulers")


def start(words: list[str], log: Path) -> BaseProcess:
    """A process that runs a command; it is forked from one that has imported everything already."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.runs", "flowbert.cli.training"])
    process: BaseProcess = context.Process(target=_run, args=(words, str(log), dict(os.environ)))
    process.start()
    return process


def fit(options: list[str], log: Path) -> None:
    """A fit, to its end."""
    process = start(["fit", *options], log)
    process.join(300)
    assert process.exitcode == 0, log.read_text()


def _run(words: list[str], log: str, environment: dict[str, str]) -> None:
    os.environ.clear()  # the server has that of whoever started it
    os.environ.update(environment)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    torch.set_num_threads(1)
    from flowbert.cli import main

    main(words)


def differences(first: Path, second: Path) -> list[str]:
    """What differs between two run folders: tensors of the last checkpoint, metrics.csv, results."""
    contents = [
        torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True, map_location="cpu")
        for folder in (first, second)
    ]
    one, two = (dict(_leaves({part: content[part] for part in _PARTS})) for content in contents)
    found = [f"{name} is in one alone" for name in one.keys() ^ two.keys()]
    found += [name for name in one.keys() & two.keys() if not _equal(one[name], two[name])]
    if (first / "metrics.csv").read_bytes() != (second / "metrics.csv").read_bytes():
        found.append("metrics.csv")
    if load_results(first / "results.json")[0] != load_results(second / "results.json")[0]:
        found.append("results.json")
    return found


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{name}/{number}")
    else:
        yield name, value


def _equal(one: Any, two: Any) -> bool:
    return torch.equal(one, two) if isinstance(one, torch.Tensor) else bool(one == two)
