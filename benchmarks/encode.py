"""Sentences per second of the encoder, beside the arithmetic it cannot do without and beside sentence-transformers.

Prints one Markdown table, then the same figures as JSON. Every row is the best of several rounds, and the rows take
turns within a round, so that a busy machine hurts all of them alike. The peer, sentence-transformers, is measured if
it is installed.

    python benchmarks/encode.py --encoder DIR --sentences FILE
"""

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np
import torch

from flowbert.encoders import SentenceEncoder

Row = dict[str, str | float]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Sentences per second of the encoder, beside sentence-transformers.")
    parser.add_argument("--encoder", required=True, help="folder or hub name of a Hugging Face encoder")
    parser.add_argument("--sentences", required=True, help="text file, a sentence a line")
    parser.add_argument("--count", type=int, default=1000, help="distinct sentences to draw, seeded (default 1000)")
    parser.add_argument("--layers", default="last", help="layers to average (default last)")
    parser.add_argument("--budgets", default="256,512,1024,2048,4096,8192,16384", help="token budgets, comma-separated")
    parser.add_argument(
        "--peer_batch", type=int, default=32, help="batch size of sentence-transformers (its default 32)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, the best of which counts (default 3)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    return parser.parse_args()


def draw_sentences(path: str, count: int) -> list[str]:
    """Distinct sentences of a file in a seeded random order."""
    with open(path, encoding="utf-8") as file:
        distinct = sorted({line.strip() for line in file} - {""})
    return random.Random(0).sample(distinct, min(count, len(distinct)))


def arithmetic(encoder: SentenceEncoder, lengths: Sequence[int]) -> float:
    """Floating point operations without padding: the blocks' matrix products and attention over pairs of tokens."""
    matrices = [
        parameter.numel()
        for name, parameter in encoder.backbone.named_parameters()
        if parameter.ndim == 2 and "embeddings" not in name
    ]
    tokens = sum(lengths)
    pairs = sum(length * length for length in lengths)
    return 2.0 * sum(matrices) * tokens + 4.0 * encoder.num_layers * encoder.dim * pairs


def matrix_speed(encoder: SentenceEncoder, device: torch.device) -> float:
    """Operations per second of one product of the size that the encoder's blocks use."""
    x = torch.randn(512, encoder.dim, device=device)
    w = torch.randn(encoder.dim, 4 * encoder.dim, device=device)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            x @ w
        _wait(device)
        times.append(time.perf_counter() - start)
    return 10 * 2.0 * x.shape[0] * w.numel() / min(times)


def measure(
    methods: dict[str, Callable[[], object]], rounds: int, device: torch.device
) -> dict[str, tuple[float, float]]:
    """Least wall time and least processor time of each method, in seconds."""
    best = {name: (float("inf"), float("inf")) for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            wall, processor = time.perf_counter(), time.process_time()
            method()
            _wait(device)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            best[name] = (min(best[name][0], wall), min(best[name][1], processor))
    return best


def peer_method(arguments: argparse.Namespace, encoder: SentenceEncoder, sentences: list[str]) -> Callable[[], object]:
    """The same embeddings by sentence-transformers (mean pooling of the last layer)."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(
        arguments.encoder, max_seq_length=encoder.max_length, model_kwargs={"dtype": torch.float32}
    )
    peer = SentenceTransformer(modules=[transformer, Pooling(encoder.dim)], device=arguments.device)
    difference = np.abs(peer.encode(sentences[:20]) - encoder.encode(sentences[:20])).max()
    if arguments.layers == "last" and difference > 1e-4:
        raise RuntimeError(f"the two libraries differ by {difference}: the comparison would be of different things")
    return lambda: peer.encode(sentences, batch_size=arguments.peer_batch)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    device = torch.device(arguments.device)
    encoder = SentenceEncoder.from_pretrained(arguments.encoder, layers=arguments.layers).to(device)
    sentences = draw_sentences(arguments.sentences, arguments.count)
    lengths = encoder.lengths(sentences)
    methods: dict[str, Callable[[], object]] = {
        f"flowbert, {budget} tokens": lambda budget=budget: encoder.encode(sentences, batch_tokens=int(budget))  # type: ignore[misc]
        for budget in arguments.budgets.split(",")
    }
    methods["flowbert, default"] = lambda: encoder.encode(sentences)
    peer = f"sentence-transformers, batches of {arguments.peer_batch}"
    if find_spec("sentence_transformers"):
        methods[peer] = peer_method(arguments, encoder, sentences)
    floor = arithmetic(encoder, lengths) / matrix_speed(encoder, device)
    best = measure(methods, arguments.rounds, device)
    rows: list[Row] = []
    for name, (wall, processor) in best.items():
        row: Row = {
            "method": name,
            "sentences_per_second": len(sentences) / wall,
            "wall_s": wall,
            "processor_s": processor,
        }
        row["floor_over_wall"] = floor / wall
        row["speed_over_peer"] = best[peer][0] / wall if peer in best else float("nan")
        row["processor_over_peer"] = best[peer][1] / processor if peer in best else float("nan")
        rows.append(row)
    print("| method | sentences/s | wall s | processor s | floor / wall | wall: peer / this | processor: peer / this |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        figures = " | ".join(f"{value:.2f}" for value in list(row.values())[1:])
        print(f"| {row['method']} | {figures} |")
    setting = {
        "encoder": os.path.basename(os.path.normpath(arguments.encoder)),
        "layers": arguments.layers,
        "sentences": len(sentences),
        "tokens": sum(lengths),
        "floor_s": floor,
        "threads": torch.get_num_threads(),
        "device": str(device),
        "torch": torch.__version__,
    }
    print(json.dumps({"setting": setting, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
