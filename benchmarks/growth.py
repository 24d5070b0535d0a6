"""Time and peak memory at N, 4 N and 16 N vectors: each stage in a process of its own, whose peak it is.

    python benchmarks/growth.py --rows 62500 --dim 768 --folder growth

writes 16 N vectors there (3 GB for the line above), and as many again for the store, prints a table, and removes them.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TIMES = (1, 4, 16)
STAGES = ("encoding", "store", "whitening", "flow", "evaluation", "bootstrap")
SENTENCES = 25  # of so many vectors one is encoded: the sample's encoder takes longer than all else
PAIRS = 100  # of so many vectors one pair is resampled


@dataclass(frozen=True)
class Setting:
    """How many times N rows, and where they are."""

    folder: Path
    times: int
    rows: int
    dim: int
    encoder: str = "builtin-sample"
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.times * self.rows

    @property
    def table(self) -> Path:
        """The manifest that joins them."""
        return self.folder / f"{self.times}.json"


class RandomEncoder:
    """An encoder that costs nothing, so that the store is what is measured."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def key(self) -> dict[str, Any]:
        """What the vectors are."""
        return {"benchmark": "random", "dim": self.dim}

    def encode(self, sentences: Sequence[str], *, on_batch: Any = None) -> Any:
        """Random vectors."""
        return np.random.default_rng(len(sentences)).standard_normal((len(sentences), self.dim), dtype=np.float32)


def vectors(rows: int, dim: int, seed: int) -> Iterator[Any]:
    """Blocks of vectors with a mean and a spectrum that falls as those of an encoder do."""
    rng = np.random.default_rng(seed)
    scale = (np.arange(1, dim + 1) ** -0.5).astype(np.float32)
    for start in range(0, rows, 8192):
        yield rng.standard_normal((min(8192, rows - start), dim), dtype=np.float32) * scale + scale


def prepare(folder: Path, rows: int, dim: int, all_times: Sequence[int] = TIMES) -> None:
    """Write parts of N vectors, and a manifest of so many of them for each number."""
    from flowbert.vectors.manifest import MANIFEST, join_parts, write_part

    for number in range(max(all_times)):
        write_part(folder, number, vectors(rows, dim, number), dim, {"seed": number})
    for times in all_times:
        join_parts(folder, times)
        (folder / MANIFEST).rename(folder / f"{times}.json")


def encoding(at: Setting) -> int:
    """A text file through the sample's encoder to a part."""
    from flowbert.data.sample import sample_corpus
    from flowbert.runs.encode_parts import encode_parts

    sentences, size = sample_corpus(), at.size // SENTENCES
    encoder = {"path": at.encoder, "dtype": at.dtype}
    (at.folder / "texts.txt").write_text("".join(f"{sentences[i % len(sentences)]} {i}\n" for i in range(size)))
    count, _ = encode_parts(str(at.folder / "texts.txt"), at.folder / f"encoded{at.times}", encoder=encoder)
    return count


def store(at: Setting) -> int:
    """Sentences added, found, and taken block by block."""
    from flowbert.store.embedding_store import EmbeddingStore

    made, size = EmbeddingStore(at.folder / f"store{at.times}", RandomEncoder(at.dim)), at.size
    texts = [f"sentence {i}" for i in range(size)]
    made.add(texts)
    found = made.rows(texts)
    for start in range(0, size, 8192):
        made.take(found[start : start + 8192])
    shutil.rmtree(at.folder / f"store{at.times}")
    return size


def whitening(at: Setting) -> int:
    """One pass, and the map."""
    import torch

    from flowbert import Whitening
    from flowbert.vectors import VectorTable

    table, fitted = VectorTable.open(at.table), Whitening()
    for _, block in table.blocks():
        fitted.partial_fit(torch.from_numpy(block))
    fitted.affine_map()
    return len(table)


def flow(at: Setting) -> int:
    """One epoch of a fit, batches of 512, and whitening beside it."""
    from flowbert.datamodules.vectors import VectorDataModule
    from flowbert.modules import FlowModule
    from flowbert.runs.fit import fit

    data = VectorDataModule(str(at.table), batch_size=512)
    options: dict[str, Any] = {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False}
    fit(FlowModule(encoder=data.table, mixing="reverse"), data, at.folder / f"run{at.times}", **options)
    return at.size


def evaluation(at: Setting) -> int:
    """5,000 pairs of rows among all."""
    from flowbert.data.sts import STSTask, Subset
    from flowbert.tasks.pairs import evaluate_task
    from flowbert.vectors import VectorTable

    table, pairs = VectorTable.open(at.table), 5000
    rows = [str(row) for row in np.linspace(0, len(table) - 1, 2 * pairs, dtype=np.int64)]  # distinct ones
    gold = np.random.default_rng(0).uniform(0, 5, pairs)
    task = STSTask("PAIRS", {"test": [Subset("all", tuple(rows[::2]), tuple(rows[1::2]), gold)]})
    evaluate_task(task, "test", table.encode)
    return len(table)


def bootstrap(at: Setting) -> int:
    """Intervals of two methods, as `evaluate` gives them."""
    from flowbert.data.sts import STSTask, Subset
    from flowbert.tasks.sts import STS

    rng, pairs = np.random.default_rng(0), at.size // PAIRS
    texts = tuple(map(str, range(pairs)))
    gold = rng.integers(0, 26, pairs) / 5
    task = STS(STSTask("PAIRS", {"test": [Subset("all", texts, texts, gold)]}), "test")
    task.resample({name: gold + rng.standard_normal(pairs) for name in ("raw", "whitening")}, threads=1)
    return pairs


def measure(stage: Callable[[Setting], int], at: Setting, threads: int) -> dict[str, Any]:
    """Run a stage in this process: items, seconds, MB before and at the peak."""
    import pytorch_lightning  # noqa: F401  # what every stage imports is there before the clock starts
    import torch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    before, start, computing = peak(), time.perf_counter(), time.process_time()
    count = stage(at)
    spent = {"seconds": time.perf_counter() - start, "computing": time.process_time() - computing}
    return {"count": count, **spent, "before": before, "peak": peak()}


def peak() -> float:
    """Largest memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Measure every stage and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=62_500, help="N")
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--folder", type=Path, required=True, help="an empty one, which is removed at the end")
    parser.add_argument("--stages", nargs="+", default=STAGES, choices=STAGES)
    parser.add_argument("--encoder", default="builtin-sample", help="of the stage encoding")
    parser.add_argument("--dtype", default="float32", help="of that encoder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        stage, times = arguments.child
        given = arguments
        at = Setting(given.folder, int(times), given.rows, given.dim, given.encoder, given.dtype)
        print(json.dumps(measure(globals()[stage], at, arguments.threads)))
        return
    arguments.folder.mkdir(parents=True)
    start = time.perf_counter()
    prepare(arguments.folder, arguments.rows, arguments.dim)
    print(f"{max(TIMES) * arguments.rows} x {arguments.dim} written in {time.perf_counter() - start:.0f} s", flush=True)
    print("| stage | items | seconds | of the processor | items/s of it | peak, MB | of these before it began |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for stage in arguments.stages:
        for times in TIMES:
            command = [sys.executable, *sys.argv, "--child", stage, str(times)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ})
            found = json.loads(done.stdout.splitlines()[-1])
            rate = found["count"] / found["computing"]
            times_spent = f"{found['seconds']:.1f} | {found['computing']:.1f} | {rate:,.0f}"
            columns = f"{times_spent} | {found['peak']:.0f} | {found['before']:.0f}"
            print(f"| {stage} | {found['count']:,} | {columns} |", flush=True)
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
