"""The store of the cache: time, memory, disk and files, with synthetic vectors.

    python -m benchmarks.cache --rows 50000 200000 --dim 384 --folder cache-benchmark

writes into a new folder, prints a table, and removes the folder. Each stage runs in a process of
its own. Linux only: memory is read from /proc.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import Floats
from flowbert.encoders import Embedder

ADDITIONS, ADDED = 200, 50
BATCHES, BATCH = 2000, 64


class Synthetic(Embedder):
    """An encoder that costs nothing, so that the store is measured."""

    path = "synthetic"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.identity: dict[str, Any] = {"benchmark": "cache", "dim": dim}

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Rows that tell their sentence."""
        numbers = np.array([text.split()[1] for text in sentences], dtype=np.float32)
        return np.ascontiguousarray(
            np.broadcast_to(numbers[:, None], (len(numbers), self.dim))
        )

    def describe(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def columns(self) -> dict[str, str]:
        """Nothing."""
        return {}


def texts(rows: int) -> list[str]:
    """Sentences in an order that is not that of the cache."""
    order = np.random.default_rng(0).permutation(rows)
    return [f"sentence {number}" for number in order]


def opened(folder: Path, rows: int, dim: int) -> Any:
    """Vectors of all sentences."""
    from flowbert.vectors import EmbeddingCache

    return EmbeddingCache(folder).rows(Synthetic(dim), texts(rows))


def fill(folder: Path, rows: int, dim: int) -> None:
    """Encode and write all rows."""
    from flowbert.vectors import EmbeddingCache

    EmbeddingCache(folder).fill([Synthetic(dim)], texts(rows))


def look_up(folder: Path, rows: int, dim: int) -> None:
    """Open the cache, check it, and find all sentences."""
    opened(folder, rows, dim)


def read_batches(folder: Path, rows: int, dim: int) -> float:
    """Random batches, as a training reads them."""
    vectors = opened(folder, rows, dim)
    rng = np.random.default_rng(1)
    batches = rng.integers(0, rows, (BATCHES, BATCH))
    start = time.perf_counter()
    for batch in batches:
        vectors[batch]
    return time.perf_counter() - start


def read_blocks(folder: Path, rows: int, dim: int) -> float:
    """All rows in order."""
    vectors = opened(folder, rows, dim)
    start = time.perf_counter()
    for _ in vectors.blocks():
        pass
    return time.perf_counter() - start


def add(folder: Path, rows: int, dim: int) -> None:
    """Many small additions, as many short runs make."""
    from flowbert.vectors import EmbeddingCache

    cache = EmbeddingCache(folder)
    for number in range(ADDITIONS):
        first = rows + number * ADDED
        new = [f"sentence {i}" for i in range(first, first + ADDED)]
        cache.fill([Synthetic(dim)], new)


STAGES: dict[str, Callable[[Path, int, int], float | None]] = {
    "fill": fill,
    "open and look up": look_up,
    f"{BATCHES:,} batches of {BATCH}": read_batches,
    "all blocks": read_blocks,
    f"{ADDITIONS} additions of {ADDED}": add,
    "open and look up again": look_up,
}


def measure(stage: str, folder: Path, rows: int, dim: int) -> dict[str, float]:
    """Run a stage in this process: seconds, and the largest memory in MB."""
    import flowbert.vectors  # noqa: F401 - imports are no part of a stage

    warnings.simplefilter("ignore")
    start = time.perf_counter()
    seconds = STAGES[stage](folder, rows, dim)
    return {
        "seconds": time.perf_counter() - start if seconds is None else seconds,
        "peak": _status("VmHWM"),
    }


def _status(name: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{name}:")[2].split()[0]) / 1000


def main() -> None:
    """Measure every stage and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args()
    if options.only:
        row = measure(options.only, options.folder, options.rows[0], options.dim)
        print(json.dumps(row))
        return
    options.folder.mkdir(parents=True)
    print("| rows | stage | s | peak MB | MB on disk | files |")
    print("|---:|---|---:|---:|---:|---:|")
    for rows in options.rows:
        folder = options.folder / str(rows)
        for stage in STAGES:
            words = ["--rows", str(rows), "--dim", str(options.dim)]
            words += ["--folder", str(folder), "--only", stage]
            command = [sys.executable, __file__, *words]
            output = subprocess.run(command, check=True, capture_output=True, text=True)
            row = json.loads(output.stdout.splitlines()[-1])
            files = [path for path in folder.rglob("*") if path.is_file()]
            size = sum(path.stat().st_blocks * 512 for path in files) / 1e6
            print(
                f"| {rows:,} | {stage} | {row['seconds']:.2f} | {row['peak']:.0f} | {size:.0f} "
                f"| {len(files)} |",
                flush=True,
            )
    shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
