"""Size, speed and exactness of exported maps beside the native ones, in one run.

    python benchmarks/export.py --encoder DIR --senteval DIR

Sizes are numbers in the map's layers; the native flow's are those of its matrices. Times are medians over the map,
embeddings given, without gradients; native and folder take turns, so that both have the same neighbours on the machine.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert import SentenceEncoder, Whitening, export, fit_flow, load_task
from flowbert.methods import Embedder
from flowbert.methods.embedder import Fitted, transform_of

BATCH = 256


def main() -> None:
    """Fit, export, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True, help="Folder of the encoder.")
    parser.add_argument("--senteval", required=True, help="SentEval's folder.")
    parser.add_argument("--layers", default="first_last")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for pooling in ("mean", "cls"):
        encoder = SentenceEncoder.from_pretrained(options.encoder, layers=options.layers, pooling=pooling)
        x = torch.from_numpy(encoder.encode(load_task("STSB", options.senteval).sentences()))
        flow = fit_flow(x, epochs=1, accelerator="cpu").flow
        maps: dict[str, Fitted | None] = {"whitening": Whitening().fit(x), "flow": flow}
        for name, fitted in maps.items():
            if fitted is not None:
                rows.append([name, pooling, *measured(Embedder(encoder, fitted), fitted, x[:BATCH])])
    print("| map | pooling | native | folder | ratio | native, ms | folder, ms | ratio | difference |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def measured(model: Embedder, fitted: Fitted, x: Tensor) -> list[str]:
    """Cells of one line."""
    from sentence_transformers import SentenceTransformer

    with tempfile.TemporaryDirectory() as scratch:
        made = export(model, Path(scratch) / "model")
        opened = SentenceTransformer(str(made.folder), device="cpu")
    modules: list[Any] = list(opened)
    dense = [module for module in modules if type(module).__name__ == "Dense"]
    floats = sum(parameter.numel() for module in dense for parameter in module.parameters())
    own = native_floats(fitted)
    first = next(i for i, module in enumerate(modules) if type(module).__name__ == "Pooling")

    @torch.no_grad()
    def folder() -> None:
        features = {"token_embeddings": x[:, None], "attention_mask": torch.ones(len(x), 1), "sentence_embedding": x}
        for module in modules[first + 1 :]:
            features = module(features)

    there, here = medians(folder, lambda: transform_of(fitted)(x))
    return [
        *(f"{own:,}", f"{floats:,}", f"{floats / own:.2f}"),
        *(f"{1e3 * here:.2f}", f"{1e3 * there:.2f}", f"{there / here:.2f}", f"{made.difference:.1e}"),
    ]


def native_floats(fitted: Any) -> int:
    """Numbers in the matrices of a map."""
    if isinstance(fitted, torch.nn.Module):
        return sum(parameter.numel() for parameter in fitted.parameters() if parameter.ndim == 2)
    weight, bias = fitted.affine()
    return int(weight.numel() + bias.numel())


def medians(*calls: Callable[[], Any], repeats: int = 50) -> list[float]:
    """Median seconds of each call, in turns."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for number, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[number].append(time.perf_counter() - start)
    return [statistics.median(each) for each in seconds]


if __name__ == "__main__":
    main()
