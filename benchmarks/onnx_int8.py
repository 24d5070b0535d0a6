"""What 8-bit weights cost and bring: Spearman x 100, size and speed of exported models in onnxruntime, on a CPU.

    python benchmarks/onnx_int8.py --encoder DIR --senteval DIR [--threads 1]

Each model is exported twice, ``onnx`` and ``onnx-int8``, and both encode STSB's development and test split. Whitening
and the flow are fitted on STSB's own sentences (``target``), in float32, once for both. The speeds are of the same
sentences in turn, the median of the rounds.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from flowbert import SentenceEncoder, Whitening, evaluate_task, export, fit_flow, load_task
from flowbert.exports.onnx_model import OnnxEncoder
from flowbert.methods import Embedder

FORMATS = ("onnx", "onnx-int8")
SPLITS = ("dev", "test")
TIMED, ROUNDS = 512, 5  # sentences, and how often


def by_length(encoder: OnnxEncoder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Embed in batches of 32 sentences of similar length."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors = encoder.encode([texts[i] for i in order], (32,))
    return vectors[np.argsort(order)]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--layers", default="first_last")
    parser.add_argument("--senteval", required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    encoder = SentenceEncoder.from_pretrained(options.encoder, layers=options.layers)
    task = load_task("STSB", options.senteval)
    corpus = encoder.encode(task.sentences())
    maps = {"raw": None, "whitening": Whitening().fit(corpus), "flow": fit_flow(corpus, seed=0).flow}
    timed = sorted(task.sentences(["test"])[:TIMED], key=len)
    print("| method | format | MB | dev | test | sentences/s |\n|---|---|---:|---:|---:|---:|")
    for name, fitted in maps.items():
        with tempfile.TemporaryDirectory() as scratch:
            opened = {}
            for kind in FORMATS:
                folder = export(Embedder(encoder, fitted), Path(scratch) / kind, format=kind).folder
                opened[kind] = OnnxEncoder(folder, options.threads)
            seconds: dict[str, list[float]] = {kind: [] for kind in FORMATS}
            for _ in range(ROUNDS):
                for kind, each in opened.items():
                    start = time.perf_counter()
                    each.encode(timed, (32,))
                    seconds[kind].append(time.perf_counter() - start)
            for kind, each in opened.items():
                figures = [evaluate_task(task, split, partial(by_length, each)).wmean for split in SPLITS]
                shown = " | ".join(f"{100 * figure:.2f}" for figure in figures)
                size = (Path(scratch) / kind / "model.onnx").stat().st_size / 1e6
                speed = len(timed) / statistics.median(seconds[kind])
                print(f"| {name} | {kind} | {size:.1f} | {shown} | {speed:.0f} |", flush=True)


if __name__ == "__main__":
    main()
