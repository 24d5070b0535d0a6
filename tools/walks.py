"""Count what a reader has to follow: the functions of flowbert that three walks call.

``python tools/walks.py`` runs each walk in a new folder, with an empty cache, and prints what was
called: distinct functions and methods of the package (properties count; lambdas, comprehensions
and what runs while a module is imported do not), their files, and of those the functions on the
way of the data. On the way are

- the functions on the stack where a file of the walk is opened, a sentence tokenized, the encoder
  called, a loss differentiated, an optimizer stepped, a covariance decomposed, or a text printed;
- the functions that return or yield data: sentences of the walk, a matrix of floats, a data frame,
  or a list, a dict or an object of the package that holds one of them.

The last column counts the types of the returned data. ``--functions`` prints the names, too, those
on the way with a star. It is a tool of development: no test holds the numbers.
"""

import argparse
import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from pkgutil import walk_packages
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import flowbert
from flowbert.cli import main

PACKAGE = str(Path(flowbert.__file__).parent)
# Functions of other libraries at which the stack is read.
EVENTS = {
    "encode_batch",
    "encode_batch_fast",
    "BertModel.forward",
    "Tensor.backward",
    "Optimizer.profile_hook_step.<locals>.wrapper",
    "linalg_eigh",
    "print",
}


@dataclass
class Walk:
    """Functions that a walk called, ``file:qualified.name``, and those on the way."""

    name: str
    folder: Path
    sentences: frozenset[str]
    ends_at: str = ""  # the walk ends where the last file of such a name is opened
    called: set[str] = field(default_factory=set)
    way: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    ended: tuple[set[str], set[str], set[str]] | None = None

    def end(self) -> None:
        """Forget what was called after the last file that ends the walk."""
        if self.ended is not None:
            self.called, self.way, self.types = self.ended

    def opened(self, path: str, frame: FrameType | None) -> None:
        """Note that a file of the walk was opened."""
        self.way.update(stack(frame))
        if self.ends_at and self.ends_at in path.removeprefix(str(self.folder)):
            self.ended = set(self.called), set(self.way), set(self.types)

    def returned(self, name: str, value: Any) -> None:
        """Note what a function returned."""
        if self.carries(value):
            self.way.add(name)
            self.types.add(type(value).__name__)

    def carries(self, value: Any, depth: int = 2) -> bool:
        """Whether a value is data of the walk, or holds some."""
        if isinstance(value, torch.Tensor | np.ndarray):
            return value.ndim > 1 and "float" in str(value.dtype)
        if isinstance(value, str):
            return value in self.sentences
        if isinstance(value, pd.DataFrame):
            return True
        parts: Any = ()
        if isinstance(value, list | tuple):
            parts = value[:8]
        elif isinstance(value, dict):
            parts = value.values()
        elif type(value).__module__.startswith("flowbert"):
            is_network = isinstance(value, torch.nn.Module)
            parts = [] if is_network else [*getattr(value, "__dict__", {}).values()]
        return depth > 0 and any(self.carries(part, depth - 1) for part in parts)

    @property
    def row(self) -> str:
        """The counts as a row of a table."""
        files = {name.split(":")[0] for name in self.called}
        counts = (
            f"{len(each):>8}" for each in (self.called, files, self.way, self.types)
        )
        return f"{self.name:<40}{''.join(counts)}"


def named(frame: FrameType) -> str | None:
    """Name of a function of the package; None for other code."""
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"
    if not is_function or not code.co_filename.startswith(PACKAGE):
        return None
    return f"{os.path.relpath(code.co_filename, PACKAGE)}:{code.co_qualname}"


def stack(frame: FrameType | None) -> Iterator[str]:
    """Functions of the package that led to a frame."""
    while frame is not None:
        name = named(frame)
        if name is not None:
            yield name
        frame = frame.f_back


WALK: list[Walk] = []  # the walk that is under way


def audited(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook of the interpreter: files that are opened."""
    if event == "open" and WALK:
        path = str(arguments[0])
        if path.startswith(str(WALK[0].folder)):
            WALK[0].opened(path, sys._getframe(1))


def profiled(frame: FrameType, event: str, argument: Any) -> None:
    """Profiler of the interpreter: calls and returns."""
    if not WALK:
        return
    walk, name = WALK[0], named(frame)
    if event == "c_call" and getattr(argument, "__name__", "") in EVENTS:
        walk.way.update(stack(frame))
    elif event == "call" and name is not None:
        walk.called.add(name)
    elif event == "call" and frame.f_code.co_qualname in EVENTS:
        walk.way.update(stack(frame))
    elif event == "return" and name is not None:
        walk.returned(name, argument)


@contextmanager
def counted(walk: Walk) -> Iterator[None]:
    """Count what is called in a block, with an empty cache."""
    os.environ["FLOWBERT_CACHE"] = tempfile.mkdtemp(dir=walk.folder)
    WALK[:] = [walk]
    sys.setprofile(profiled)
    threading.setprofile(profiled)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        WALK.clear()


def fitted(folder: Path, sentences: list[str]) -> list[Walk]:
    """The walks through ``fit``: to the first training step, and from there to the model."""
    known = frozenset(sentences)
    step = Walk("a line of a.txt to a training step", folder, known)
    saved = Walk("from there to the saved model", folder, known, ends_at="model")

    def stepped(*_: Any) -> None:
        WALK[:] = [saved]

    hook = register_optimizer_step_post_hook(stepped)
    text = folder / "a.txt"
    text.write_text("\n".join(sentences), encoding="utf-8")
    with counted(step):
        flowbert.fit(
            "flow", corpus=str(text), run_dir=folder / "run", trainer={"max_steps": 1}
        )
    hook.remove()
    saved.end()
    return [step, saved]


def compared(folder: Path, sentences: list[str]) -> Walk:
    """The walk from a file of pairs to the printed table."""
    walk = Walk("compare --tasks pairs.csv to the table", folder, frozenset(sentences))
    rows = ["sentence1,sentence2,score"]
    for i in range(0, len(sentences) - 7, 2):
        step = 1 + i % 7  # neighbours share more words
        rows.append(f"{sentences[i]},{sentences[i + step]},{5 - step / 2}")
    table = folder / "pairs.csv"
    table.write_text("\n".join(rows), encoding="utf-8")
    with counted(walk), redirect_stdout(StringIO()):
        main(["compare", "--tasks", str(table)])
    return walk


def walks() -> list[Walk]:
    """All walks, over the sentences of a small grammar."""
    for module in walk_packages(flowbert.__path__, "flowbert."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    subjects = "A man", "The dog", "Nobody", "One child", "A large cat", "The woman"
    verbs = "sees", "paints", "carries", "follows", "forgets"
    objects = "a red ball.", "the old house.", "some bread.", "two birds.", "a song."
    sentences = [" ".join(words) for words in product(subjects, verbs, objects)]
    sys.addaudithook(audited)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        return [*fitted(folder, sentences), compared(folder, sentences)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", action="store_true", help="print the names, too")
    given = parser.parse_args()
    titles = "".join(f"{title:>8}" for title in ("called", "files", "way", "types"))
    print(f"{'walk':<40}{titles}")
    for each in walks():
        print(each.row)
        if given.functions:
            for name in sorted(each.called):
                print(f"  {'*' if name in each.way else ' '} {name}")
