"""Time and peak memory at N, 4 N and 16 N vectors, each stage in a process of its own.

    python -m benchmarks.growth --rows 12500 --dim 384 --folder growth

writes 16 N vectors into the folder, prints a table, and removes the folder. Linux only: memory is
read from /proc.
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import Floats
from flowbert.encoders import Embedder

TIMES = (1, 4, 16)
SENTENCES = 25  # one sentence is encoded for so many vectors: an encoder takes longer
FLOW_BATCH = 512


@dataclass(frozen=True)
class Size:
    """Vectors of a measurement, and where they are."""

    folder: Path
    rows: int
    dim: int
    encoder: str = "builtin-sample"

    @property
    def vectors(self) -> Path:
        """Their file."""
        return self.folder / f"{self.rows}.npy"


class RandomEncoder(Embedder):
    """An encoder that costs nothing, so that the cache is measured."""

    path = "random"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.identity: dict[str, Any] = {"benchmark": "random", "dim": dim}

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Random vectors."""
        rng = np.random.default_rng(len(sentences))
        return rng.standard_normal((len(sentences), self.dim), dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def columns(self) -> dict[str, str]:
        """Nothing."""
        return {}


def vectors(rows: int, dim: int) -> Iterator[Floats]:
    """Blocks with a mean and a falling spectrum, as those of an encoder."""
    rng = np.random.default_rng(0)
    scale = (np.arange(1, dim + 1) ** -0.5).astype(np.float32)
    for start in range(0, rows, 8192):
        count = min(8192, rows - start)
        yield rng.standard_normal((count, dim), dtype=np.float32) * scale + scale


def encoding(size: Size) -> int:
    """A text file through an encoder into a file of vectors."""
    from flowbert.data.sample import sample_corpus
    from flowbert.encoding import encode

    sample, count = sample_corpus(), size.rows // SENTENCES
    texts = [f"{sample[i % len(sample)]} {i}" for i in range(count)]
    file = size.folder / "texts.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    output = size.folder / "encoded.npy"
    encode(input=str(file), encoder=size.encoder, output=output)
    return count


def cache(size: Size) -> int:
    """Sentences cached, and their vectors read block by block."""
    from flowbert.vectors import EmbeddingCache

    encoder = RandomEncoder(size.dim)
    texts = [f"sentence {i}" for i in range(size.rows)]
    folder = size.folder / "cache"
    for _ in EmbeddingCache(folder).rows(encoder, texts).blocks():
        pass
    shutil.rmtree(folder)
    return size.rows


def whitening(size: Size) -> int:
    """One pass, and the map."""
    from flowbert.maps import Whitening
    from flowbert.vectors import as_vectors

    Whitening().fit(as_vectors(size.vectors))
    return size.rows


def flow(size: Size) -> int:
    """One epoch of a fit, with whitening beside it."""
    from flowbert.fitting import fit

    fit(
        "flow",
        vectors=str(size.vectors),
        model={"mixing": "reverse"},
        data={"batch_size": FLOW_BATCH},
        trainer={
            "max_epochs": 1,
            "accelerator": "cpu",
            "enable_progress_bar": False,
        },
        run_dir=size.folder / f"run{size.rows}",
    )
    return size.rows


STAGES: dict[str, Callable[[Size], int]] = {
    "encoding": encoding,
    "cache": cache,
    "whitening": whitening,
    "flow": flow,
}


def measure(stage: str, size: Size, threads: int = 1) -> dict[str, float]:
    """Run a stage in this process: items, seconds, MB."""
    import pytorch_lightning  # noqa: F401 - imports are no part of a stage
    import torch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    start, computing = time.perf_counter(), time.process_time()
    with Memory() as memory:
        items = STAGES[stage](size)
    return {
        "items": items,
        "seconds": time.perf_counter() - start,
        "computing": time.process_time() - computing,
        "before": memory.before,
        "own": memory.own,
        "peak": memory.peak,
    }


class Memory:
    """Memory of this process while a stage runs, MB.

    Pages of mapped files, which the system takes back when it needs them, are in ``peak`` alone.
    """

    def __init__(self) -> None:
        self.before = _status("RssAnon")
        self.own = self.before
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> "Memory":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()
        self.peak = _status("VmHWM")

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.own = max(self.own, _status("RssAnon"))


def _status(name: str) -> float:
    """An entry of /proc/self/status, MB; ``getrusage`` begins at the peak of the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{name}:")[2].split()[0]) / 1000


def _write(path: Path, blocks: Iterator[Floats], count: int) -> None:
    from flowbert.vectors import write_vectors

    write_vectors(path, lambda _: blocks, count)


def main() -> None:
    """Measure every stage and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_500, help="N")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder")
    parser.add_argument("--stages", nargs="+", default=STAGES, choices=STAGES)
    parser.add_argument("--encoder", default="builtin-sample", help="of encoding")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args()
    if options.only:
        size = Size(options.folder, options.rows, options.dim, options.encoder)
        print(json.dumps(measure(options.only, size, options.threads)))
        return
    options.folder.mkdir(parents=True)
    print("| stage | items | s | s of CPU | MB at the start | MB | with files |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for times in TIMES:
        size = Size(options.folder, times * options.rows, options.dim)
        blocks = vectors(size.rows, size.dim)
        _write(size.vectors, blocks, size.rows)
        for stage in options.stages:
            words = ["--folder", str(size.folder), "--only", stage]
            words += ["--rows", str(size.rows), "--dim", str(size.dim)]
            words += ["--encoder", options.encoder, "--threads", str(options.threads)]
            command = [sys.executable, "-m", "benchmarks.growth", *words]
            output = subprocess.run(command, check=True, capture_output=True, text=True)
            row = json.loads(output.stdout.splitlines()[-1])
            print(
                f"| {stage} | {row['items']:,} | {row['seconds']:.1f} | {row['computing']:.1f} "
                f"| {row['before']:.0f} | {row['own']:.0f} | {row['peak']:.0f} |",
                flush=True,
            )
    shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
