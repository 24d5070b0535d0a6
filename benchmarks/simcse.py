"""Sentences per second of unsupervised SimCSE training, beside its arithmetic and beside sentence-transformers.

The peer is sentence-transformers' trainer with MultipleNegativesRankingLoss on (sentence, sentence) pairs: the same
encoder, batch, length, optimizer and mean pooling. The rows take turns within a round, so that a busy machine hurts
all alike; a row's figure is the median step of its best round, in wall and in processor time. Prints a
Markdown table and writes JSON. The peer needs the package accelerate.

    python benchmarks/simcse_speed.py --encoder DIR --sentences FILE --output simcse_speed.json
"""

import argparse
import json
import logging
import os
import random
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.io.atomic import written_atomically
from flowbert.modules.simcse import SimCSEModule

Times = tuple[float, float]  # wall and processor, in seconds

PASSES = 2  # of each sentence
_BACKWARD = 3.0  # forward and backward together, in forward passes


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Training speed of SimCSE beside sentence-transformers.")
    parser.add_argument("--encoder", required=True, help="folder or hub name of a Hugging Face encoder")
    parser.add_argument("--sentences", required=True, help="text file, a sentence a line")
    parser.add_argument("--steps", type=int, default=10, help="timed steps per row and round (default 10)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones (default 2)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, the best of which counts (default 2)")
    parser.add_argument("--batch_size", type=int, default=64, help="sentences per step (default 64)")
    parser.add_argument("--max_length", type=int, default=32, help="tokens per sentence (default 32)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default 2)")
    parser.add_argument("--output", default=None, help="JSON file to write")
    return parser.parse_args()


class _Clock(Callback):
    """Time at the end of every step."""

    def __init__(self) -> None:
        self.times: list[Times] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.times.append(_now())


def _now() -> Times:
    return time.perf_counter(), time.process_time()


def seconds_per_step(times: list[Times], warmup: int) -> Times:
    """Median wall and processor seconds between the ends of the steps after the first ``warmup``."""
    steps = list(pairwise(times[max(0, warmup - 1) :]))
    return median(b[0] - a[0] for a, b in steps), median(b[1] - a[1] for a, b in steps)


def ours(arguments: argparse.Namespace, file: Path, precision: str, pool: int) -> Times:
    """Seconds of a step of flowbert, set up as its command line does."""
    encoder = SentenceEncoder.from_pretrained(arguments.encoder, frozen=False)
    module = SimCSEModule(encoder, head="none")
    sizes = {"batch_size": arguments.batch_size, "max_length": arguments.max_length, "pool": pool}
    data = ContrastiveDataModule(encoder, CorpusOptions(str(file)), **sizes)
    clock = _Clock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(
            max_steps=arguments.warmup + arguments.steps,
            accelerator="cpu",
            devices=1,
            precision=precision,  # type: ignore[arg-type]
            gradient_clip_val=1.0,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[clock],
            default_root_dir=scratch,
        )
        trainer.fit(module, datamodule=data)
    return seconds_per_step(clock.times, arguments.warmup)


def peer(arguments: argparse.Namespace, file: Path, bf16: bool) -> Times:
    """Seconds of a step of sentence-transformers' trainer."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as TrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        times: list[Times]

        def __init__(self) -> None:
            self.times = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.times.append(_now())

    transformer = Transformer(
        arguments.encoder, max_seq_length=arguments.max_length, model_kwargs={"dtype": torch.float32}
    )
    model = SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu")
    sentences = file.read_text(encoding="utf-8").splitlines()
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        settings = TrainingArguments(
            output_dir=scratch,
            max_steps=arguments.warmup + arguments.steps,
            per_device_train_batch_size=arguments.batch_size,
            learning_rate=3e-5,
            bf16=bf16,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=settings,
            train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[clock],
        )
        trainer.train()
    return seconds_per_step(clock.times, arguments.warmup)


def operations_per_sentence(arguments: argparse.Namespace, file: Path) -> tuple[float, float]:
    """Floating point operations of training on a sentence without padding, and its mean tokens."""
    encoder = SentenceEncoder.from_pretrained(arguments.encoder, max_length=arguments.max_length)
    lengths = encoder.lengths(file.read_text(encoding="utf-8").splitlines())
    weights = sum(
        parameter.numel()
        for name, parameter in encoder.backbone.named_parameters()
        if parameter.ndim == 2 and "embeddings" not in name
    )
    tokens = sum(lengths) / len(lengths)
    pairs = sum(length**2 for length in lengths) / len(lengths)
    forward = 2.0 * weights * tokens + 4.0 * encoder.num_layers * encoder.dim * pairs
    return PASSES * _BACKWARD * forward, tokens


def matrix_rate(dtype: torch.dtype, rows: int = 2048, dim: int = 384) -> float:
    """Floating point operations per second of one product of the size that an encoder uses."""
    x, weight = torch.randn(rows, dim, dtype=dtype), torch.randn(4 * dim, dim, dtype=dtype)
    times = []
    for _ in range(30):
        start = time.perf_counter()
        torch.nn.functional.linear(x, weight)
        times.append(time.perf_counter() - start)
    return 2.0 * rows * weight.numel() / min(times)


def draw(path: str, count: int, folder: str) -> Path:
    """A seeded draw of sentences as a file of its own: the same for all rows."""
    distinct = sorted({line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()} - {""})
    file = Path(folder) / "sentences.txt"
    chosen = random.Random(0).sample(distinct, min(count, len(distinct)))
    file.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return file


def quiet() -> None:
    """Leave the table alone on the terminal."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    quiet()
    with tempfile.TemporaryDirectory() as folder:
        count = max(2048, (arguments.warmup + arguments.steps + 1) * arguments.batch_size)
        file = draw(arguments.sentences, count, folder)
        operations, tokens = operations_per_sentence(arguments, file)
        methods: dict[str, Callable[[], Times]] = {
            "sentence-transformers, float32": lambda: peer(arguments, file, bf16=False),
            "flowbert pool 1, float32": lambda: ours(arguments, file, "32-true", 1),
            "flowbert pool 32, float32": lambda: ours(arguments, file, "32-true", 32),
            "sentence-transformers, bf16": lambda: peer(arguments, file, bf16=True),
            "flowbert pool 1, bf16": lambda: ours(arguments, file, "bf16-mixed", 1),
            "flowbert pool 32, bf16": lambda: ours(arguments, file, "bf16-mixed", 32),
        }
        best = dict.fromkeys(methods, (float("inf"), float("inf")))
        rates = {torch.float32: 0.0, torch.bfloat16: 0.0}
        for _ in range(arguments.rounds):
            for name, method in methods.items():
                wall, processor = method()
                best[name] = (min(best[name][0], wall), min(best[name][1], processor))
            rates = {dtype: max(rate, matrix_rate(dtype)) for dtype, rate in rates.items()}
    rows = []
    base = best["sentence-transformers, float32"]
    for name, (wall, processor) in best.items():
        dtype = torch.bfloat16 if "bf16" in name else torch.float32
        own = best[name.replace("bf16", "float32")]
        speed = arguments.batch_size / wall
        rows.append(
            {
                "method": name,
                "sentences_per_second": speed,
                "wall_over_peer_float32": base[0] / wall,
                "wall_over_same_in_float32": own[0] / wall,
                "processor_over_peer_float32": base[1] / processor,
                "processor_over_same_in_float32": own[1] / processor,
                "share_of_matrix_rate": speed * operations / rates[dtype],
            }
        )
    print(
        "| training | sentences/s | wall: peer float32 / this | wall: same in float32 / this "
        "| processor: peer float32 / this | processor: same in float32 / this | share of matrix rate |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(v if isinstance(v, str) else f"{v:.2f}" for v in row.values()) + " |")
    setting = {
        "encoder": os.path.basename(os.path.normpath(arguments.encoder)),
        "batch_size": arguments.batch_size,
        "max_length": arguments.max_length,
        "mean_tokens": tokens,
        "operations_per_sentence": operations,
        "matrix_rate": {str(dtype): rate for dtype, rate in rates.items()},
        "floor_sentences_per_second": {str(dtype): rate / operations for dtype, rate in rates.items()},
        "threads": arguments.threads,
        "load_average": os.getloadavg()[0],
        "torch": torch.__version__,
    }
    text = json.dumps({"setting": setting, "rows": rows}, indent=1)
    print(text)
    if arguments.output is not None:
        with written_atomically(arguments.output) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
