"""Time and memory of whitening on a file of vectors: fit, and encode to a new file, each in a process of its own.

Writes random float32 vectors to a .npy file in a temporary folder, which is deleted at the end, and prints a Markdown
table. The memory is the largest resident set of the process, with Python and its libraries (getrusage, on Linux).

    python benchmarks/vectors.py --rows 20000 1000000 --dim 768
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flowbert.vectors import write_vectors

TRAIN = Path(__file__).parents[1] / "train.py"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Whitening on a file of vectors.")
    parser.add_argument("--rows", default=[20_000, 1_000_000], nargs="+", type=int)
    parser.add_argument("--dim", default=768, type=int)
    parser.add_argument("--folder", default=None, help="where the temporary folder is made")
    return parser.parse_args()


def measured(*words: str) -> str:
    """Run a command of train.py: seconds and MiB, as cells of the table."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(TRAIN), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"train.py {' '.join(words)}: failed")
    return f"{time.perf_counter() - start:.0f} | {usage.ru_maxrss / 1024:.0f}"


def main() -> None:
    """Print the table."""
    arguments = parse_arguments()
    rng, scales = np.random.default_rng(0), np.arange(1, arguments.dim + 1, dtype=np.float32) ** -0.5
    print(
        "| rows | file, MiB | fit, s | fit, peak MiB | encode, s | encode, peak MiB |\n|---:|---:|---:|---:|---:|---:|"
    )
    for rows in arguments.rows:
        with TemporaryDirectory(dir=arguments.folder) as folder:
            sizes = [min(10_000, rows - start) for start in range(0, rows, 10_000)]
            blocks = (rng.standard_normal((size, arguments.dim), dtype=np.float32) * scales for size in sizes)
            write_vectors(f"{folder}/emb.npy", blocks, (rows, arguments.dim), "float32")
            run = f"{folder}/run"
            fit = measured(
                *("fit", "--method", "whitening", "--whitening.shrinkage", "0.1"),
                *("--vectors", f"{folder}/emb.npy", "--run_dir", run),
            )
            files = ("--vectors", f"{folder}/emb.npy", "--output", f"{folder}/mapped.npy")
            encode = measured("encode", "--model", run, *files)
            print(f"| {rows:,} | {rows * arguments.dim * 4 / 2**20:,.0f} | {fit} | {encode} |", flush=True)


if __name__ == "__main__":
    main()
