"""Time and peak memory at N, 4 N and 16 N vectors: each stage in a process of its own, whose peak it is.

    python -m benchmarks.growth --rows 62500 --dim 768 --folder growth

writes 16 N vectors there (3 GB for the line above), and as many again for the store, prints a table, and removes them.
The floor is the arithmetic and the bytes of a stage at the rates of products and a copy in the same process.
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
FLOW_BATCH = 512
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


@dataclass(frozen=True)
class Work:
    """What a stage cannot do without.

    Attributes:
        items: Sentences, vectors or pairs.
        operations: Gives the floating point operations of its products by the products' dtype, when all is measured.
        bytes: Bytes read and written.
    """

    items: int
    operations: Callable[[], dict[str, float]] = dict
    bytes: float = 0.0

    def floor(self, dim: int) -> float:
        """Seconds at the rates of this moment: of products of ``dim`` columns, and of a copy."""
        import torch

        from benchmarks.harness import Copy, Product, Setting

        operations = self.operations()
        products = {dtype: Product(512, dim, dim, getattr(torch, dtype)) for dtype in operations}
        best = Setting(clock="cpu").seconds({**products, "copy": Copy()}, 10)
        arithmetic = (count * best[dtype] / products[dtype].operations for dtype, count in operations.items())
        return sum(arithmetic) + self.bytes * best["copy"] / Copy.bytes


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


def encoding(at: Setting) -> Work:
    """A text file through the sample's encoder to a part."""
    from benchmarks.encoding import arithmetic
    from flowbert.data.sample import sample_corpus
    from flowbert.encoders import SentenceEncoder
    from flowbert.runs.encode_parts import encode_parts

    sentences, size = sample_corpus(), at.size // SENTENCES
    texts = [f"{sentences[i % len(sentences)]} {i}" for i in range(size)]
    (at.folder / "texts.txt").write_text("\n".join(texts) + "\n")
    count, _ = encode_parts(
        str(at.folder / "texts.txt"), at.folder / f"encoded{at.times}", encoder={"path": at.encoder, "dtype": at.dtype}
    )

    def operations() -> dict[str, float]:
        loaded = SentenceEncoder.from_pretrained(at.encoder, dtype=at.dtype)
        return {at.dtype: arithmetic(loaded, loaded.lengths(texts))}

    return Work(count, operations)


def store(at: Setting) -> Work:
    """Sentences added, found, and taken block by block."""
    from flowbert.store.embedding_store import EmbeddingStore

    made, size = EmbeddingStore(at.folder / f"store{at.times}", RandomEncoder(at.dim)), at.size
    texts = [f"sentence {i}" for i in range(size)]
    made.add(texts)
    found = made.rows(texts)
    for start in range(0, size, 8192):
        made.take(found[start : start + 8192])
    shutil.rmtree(at.folder / f"store{at.times}")
    return Work(size, bytes=3 * 4.0 * size * at.dim)  # written, read again, copied


def whitening(at: Setting) -> Work:
    """One pass, and the map."""
    import torch

    from flowbert import Whitening
    from flowbert.vectors import VectorTable

    table, fitted = VectorTable.open(at.table), Whitening()
    for _, block in table.blocks():
        fitted.partial_fit(torch.from_numpy(block))
    fitted.affine_map()
    return _moments(len(table), at.dim)


def _moments(rows: int, dim: int) -> Work:
    """Half of the products: a covariance is symmetric."""
    return Work(rows, lambda: {"float64": float(rows) * dim**2}, bytes=4.0 * rows * dim)


def flow(at: Setting) -> Work:
    """One epoch of a fit, and whitening beside it."""
    from benchmarks.flow_step import PASSES, forward_weights
    from flowbert.datamodules.vectors import VectorDataModule
    from flowbert.modules import FlowModule
    from flowbert.runs.fit import fit

    data = VectorDataModule(str(at.table), batch_size=FLOW_BATCH)
    options: dict[str, Any] = {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False}
    module = FlowModule(encoder=data.table, mixing="reverse")
    fit(module, data, at.folder / f"run{at.times}", **options)
    trained, beside = module.flow, _moments(at.size, at.dim)
    assert trained is not None
    training = {"float32": PASSES * 2 * at.size * forward_weights(trained)}
    optimizer = 28.0 * sum(parameter.numel() for parameter in trained.parameters()) * at.size / FLOW_BATCH
    return Work(at.size, lambda: training | beside.operations(), beside.bytes + optimizer)


def evaluation(at: Setting) -> Work:
    """5,000 pairs of rows among all."""
    from flowbert.data.sts import STSTask, Subset
    from flowbert.tasks.pairs import evaluate_task
    from flowbert.vectors import VectorTable

    table, pairs = VectorTable.open(at.table), 5000
    rows = [str(row) for row in np.linspace(0, len(table) - 1, 2 * pairs, dtype=np.int64)]  # distinct ones
    gold = np.random.default_rng(0).uniform(0, 5, pairs)
    task = STSTask("PAIRS", {"test": [Subset("all", tuple(rows[::2]), tuple(rows[1::2]), gold)]})
    evaluate_task(task, "test", table.encode)
    # Uniformity: half of the products of all pairs of the distinct rows.
    return Work(len(table), lambda: {"float32": (2.0 * pairs) ** 2 * at.dim})


def bootstrap(at: Setting) -> Work:
    """Intervals of two methods, as `evaluate` gives them, of 1,000 resamples."""
    from flowbert.data.sts import STSTask, Subset
    from flowbert.tasks.sts import STS

    rng, pairs = np.random.default_rng(0), at.size // PAIRS
    texts = tuple(map(str, range(pairs)))
    gold = rng.integers(0, 26, pairs) / 5
    task = STS(STSTask("PAIRS", {"test": [Subset("all", texts, texts, gold)]}), "test")
    task.resample({name: gold + rng.standard_normal(pairs) for name in ("raw", "whitening")})
    return Work(pairs, bytes=4.0 * 1000 * pairs * 4)  # multiplicities: written, read for gold scores and two methods


def measure(stage: Callable[[Setting], Work], at: Setting, threads: int) -> dict[str, Any]:
    """Run a stage in this process: items, seconds and their floor, MB before and at the peak."""
    import pytorch_lightning  # noqa: F401  # what every stage imports is there before the clock starts
    import torch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    before, start, computing = peak(), time.perf_counter(), time.process_time()
    work = stage(at)
    spent = {"seconds": time.perf_counter() - start, "computing": time.process_time() - computing}
    memory = {"before": before, "peak": peak()}
    return {"count": work.items, **spent, **memory, "floor": work.floor(at.dim)}


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
    print("| stage | items | seconds | of the processor | floor | items/s of it | peak, MB | before it began |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for stage in arguments.stages:
        for times in TIMES:
            command = [sys.executable, "-m", "benchmarks.growth", *sys.argv[1:], "--child", stage, str(times)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ})
            found = json.loads(done.stdout.splitlines()[-1])
            rate = found["count"] / found["computing"]
            times_spent = f"{found['seconds']:.1f} | {found['computing']:.1f} | {found['floor']:.2f} | {rate:,.0f}"
            columns = f"{times_spent} | {found['peak']:.0f} | {found['before']:.0f}"
            print(f"| {stage} | {found['count']:,} | {columns} |", flush=True)
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
