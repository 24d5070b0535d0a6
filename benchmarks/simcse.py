"""A step of unsupervised SimCSE, beside sentence-transformers' trainer.

The peer trains with MultipleNegativesRankingLoss on (sentence, sentence) pairs: the same encoder,
batch, length, optimizer and mean pooling. A figure is the median step of the best round.

Floor: the products of :mod:`benchmarks.encoding`, three times for a forward and a backward pass of
each sentence and its positive; nine numbers moved for each parameter, as in
:mod:`benchmarks.flow_step`, as the optimizer steps in float32. Masks of dropout are not counted.
"""

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from benchmarks.encoding import arithmetic
from benchmarks.flow_step import NUMBERS
from benchmarks.harness import CLOCKS, NotMeasured, Row, Setting, bfloat16_is_fast
from flowbert.data.corpus import load_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.methods import SimCSEModule, TextDataModule
from flowbert.methods.examples import Examples
from flowbert.training.trainer import quiet_lightning

BATCH, LENGTH, SENTENCES = 64, 32, 2048
WARMUP, STEPS, ROUNDS = 2, 6, 2
PASSES = 2 * 3  # each sentence twice; forward and backward are three forward passes


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a step, in each precision that the processor has."""
    path = str(setting.real_path("models", "minilm-mlm"))
    corpus = load_corpus(str(setting.real_path("data", "corpora", "captions.txt")))
    distinct = sorted(set(corpus.sentences))
    sentences = random.Random(0).sample(distinct, min(SENTENCES, len(distinct)))
    yield step_row(setting, path, sentences, "float32")
    if not bfloat16_is_fast():
        raise NotMeasured("bfloat16 is emulated by this processor")
    yield step_row(setting, path, sentences, "bfloat16")


def step_row(
    setting: Setting,
    path: str,
    sentences: Sequence[str],
    dtype: str,
    device: str = "cpu",
) -> Row:
    """The step of both trainers, in turn.

    Raises:
        NotMeasured: If sentence-transformers or its trainer is not installed.
    """
    if not (find_spec("sentence_transformers") and find_spec("accelerate")):
        raise NotMeasured("needs sentence-transformers and accelerate")
    best = {"ours": float("inf"), "peer": float("inf")}
    trainings = {"ours": _train, "peer": _train_peer}
    for _ in range(setting.times(ROUNDS)):
        for name, train in trainings.items():
            times = train(setting, path, sentences, dtype, device)
            steps = [after - before for before, after in pairwise(times[WARMUP - 1 :])]
            best[name] = min(best[name], median(steps))
    encoder = SentenceEncoder(path, max_length=LENGTH)
    operations = arithmetic(encoder, encoder.lengths(sentences)) / len(sentences)
    parameters = sum(p.numel() for p in encoder.parameters())
    return Row(
        f"SimCSE step, {dtype}",
        f"batch {BATCH}, {LENGTH} tokens, {device}",
        best["ours"],
        best["peer"],
        "sentence-transformers' trainer",
        setting.floor(
            PASSES * BATCH * operations, 4.0 * NUMBERS * parameters, dtype, device
        ),
    )


def _now(clock: Callable[[], float]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock()


class _Steps(Callback):
    """Times at the ends of the steps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.times.append(_now(self.clock))


def _train(
    setting: Setting, path: str, sentences: Sequence[str], dtype: str, device: str
) -> list[float]:
    """Times of a training as ``fit`` does it."""
    encoder = SentenceEncoder(path, pooling="mean", frozen=False)
    module = SimCSEModule(encoder, head="none")
    examples = Examples("captions", (tuple(sentences),) * 2)
    data = TextDataModule(encoder, examples, batch_size=BATCH, max_length=LENGTH)
    steps = _Steps(CLOCKS[setting.clock])
    with tempfile.TemporaryDirectory() as folder, quiet_lightning():
        trainer = Trainer(
            max_steps=WARMUP + setting.times(STEPS, 2),
            accelerator=device,
            devices=1,
            precision="32-true" if dtype == "float32" else "bf16-mixed",
            gradient_clip_val=1.0,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[steps],
            default_root_dir=folder,
        )
        trainer.fit(module, datamodule=data)
    return steps.times


def _train_peer(
    setting: Setting, path: str, sentences: Sequence[str], dtype: str, device: str
) -> list[float]:
    """Times of a training of sentence-transformers' trainer."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesRankingLoss,
    )
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback

    times: list[float] = []

    class Steps(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(_now(CLOCKS[setting.clock]))

    transformer = Transformer(
        path, max_seq_length=LENGTH, model_kwargs={"dtype": torch.float32}
    )
    pooling = Pooling(transformer.get_embedding_dimension())
    model = SentenceTransformer(modules=[transformer, pooling], device=device)
    columns = {"anchor": list(sentences), "positive": list(sentences)}
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(
            model=model,
            args=SentenceTransformerTrainingArguments(
                output_dir=folder,
                max_steps=WARMUP + setting.times(STEPS, 2),
                per_device_train_batch_size=BATCH,
                learning_rate=3e-5,
                bf16=dtype == "bfloat16",
                use_cpu=device == "cpu",
                report_to="none",
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict(columns),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Steps()],
        )
        trainer.train()
    return times
