"""A step of unsupervised SimCSE, beside sentence-transformers' trainer.

The peer trains with MultipleNegativesRankingLoss on (sentence, sentence) pairs: the same encoder, batch, length,
optimizer and mean pooling. A figure is the median step of the best round. The peer needs the package accelerate.
"""

import logging
import random
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from benchmarks.encoding import arithmetic
from benchmarks.harness import CLOCKS, NotMeasured, Product, Row, Setting
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.modules.simcse import SimCSEModule

BATCH, LENGTH, WARMUP, STEPS, ROUNDS = 64, 32, 2, 6, 2
_PASSES = 2 * 3.0  # each sentence twice; forward and backward together are three forward passes
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Clock = Callable[[], float]


def rows(setting: Setting) -> list[Row]:
    """Seconds of a step, in float32 and in bfloat16.

    Raises:
        NotMeasured: Without a real encoder and corpus, or without the peer.
    """
    encoder = str(setting.real_folder("models", "minilm-mlm"))
    corpus = setting.real_folder("data", "corpora", "captions.txt")
    if not (find_spec("sentence_transformers") and find_spec("accelerate")):
        raise NotMeasured("needs sentence-transformers and accelerate")
    clock, found = CLOCKS[setting.clock], []
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Lightning's and transformers' notices
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = _draw(corpus, 2048, Path(folder))
            operations = _operations(encoder, file)
            for dtype, aim in (("float32", "0.9 of the floor"), ("bfloat16", "0.7 of the floor")):
                product = Product(2048, 384, 1536, _DTYPES[dtype])
                best = dict.fromkeys(("ours", "peer", "product"), float("inf"))
                for _ in range(setting.times(ROUNDS)):
                    best["ours"] = min(best["ours"], _ours(setting, clock, encoder, file, dtype))
                    best["peer"] = min(best["peer"], _peer(setting, clock, encoder, file, dtype))
                    best["product"] = min(best["product"], setting.seconds({"product": product}, 10)["product"])
                found.append(
                    Row(
                        name=f"SimCSE step, {dtype}",
                        setting=f"batch {BATCH}, {LENGTH} tokens",
                        ours=best["ours"],
                        peer=best["peer"],
                        peer_name="sentence-transformers' trainer",
                        floor=operations * best["product"] / product.operations,
                        floor_is=f"{operations / 1e9:.0f} GFLOP, no padding",
                        aim=aim,
                        per="step",
                    )
                )
    finally:
        logging.disable(disabled)
    return found


class _StepClock(Callback):
    """Time at the end of every step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.times: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.times.append(self.clock())


def _seconds_per_step(times: list[float]) -> float:
    """Median seconds between the ends of the steps after the first ones."""
    return median(b - a for a, b in pairwise(times[WARMUP - 1 :]))


def _ours(setting: Setting, clock: Clock, path: str, file: Path, dtype: str) -> float:
    """Seconds of a step, set up as the command line does."""
    encoder = SentenceEncoder.from_pretrained(path, frozen=False)
    module = SimCSEModule(encoder, head="none")
    data = ContrastiveDataModule(encoder, CorpusOptions(str(file)), batch_size=BATCH, max_length=LENGTH, pool=1)
    steps = _StepClock(clock)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(
            max_steps=WARMUP + setting.times(STEPS, 2),
            accelerator="cpu",
            devices=1,
            precision="32-true" if dtype == "float32" else "bf16-mixed",
            gradient_clip_val=1.0,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[steps],
            default_root_dir=scratch,
        )
        trainer.fit(module, datamodule=data)
    return _seconds_per_step(steps.times)


def _peer(setting: Setting, clock: Clock, path: str, file: Path, dtype: str) -> float:
    """Seconds of a step of sentence-transformers' trainer."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as TrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback

    times: list[float] = []

    class Steps(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(clock())

    transformer = Transformer(path, max_seq_length=LENGTH, model_kwargs={"dtype": torch.float32})
    model = SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu")
    sentences = file.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as scratch:
        settings = TrainingArguments(
            output_dir=scratch,
            max_steps=WARMUP + setting.times(STEPS, 2),
            per_device_train_batch_size=BATCH,
            learning_rate=3e-5,
            bf16=dtype == "bfloat16",
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
            callbacks=[Steps()],
        )
        trainer.train()
    return _seconds_per_step(times)


def _operations(path: str, file: Path) -> float:
    """Floating point operations of a step without padding."""
    encoder = SentenceEncoder.from_pretrained(path, max_length=LENGTH)
    lengths = encoder.lengths(file.read_text(encoding="utf-8").splitlines())
    return _PASSES * arithmetic(encoder, lengths) * BATCH / len(lengths)


def _draw(path: Path, count: int, folder: Path) -> Path:
    """A seeded draw of sentences as a file of its own: the same for both."""
    distinct = sorted({line.strip() for line in path.read_text(encoding="utf-8").splitlines()} - {""})
    file = folder / "sentences.txt"
    chosen = random.Random(0).sample(distinct, min(count, len(distinct)))
    file.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return file
