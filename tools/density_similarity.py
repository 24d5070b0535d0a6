"""Bits per dimension against Spearman along the training of a flow: docs/research/flow-density.md.

``python -m tools.density_similarity measure`` trains flows on the sentences of STS-B and appends a
line to the output for each training: bits per dimension of a tenth of the sentences, which is held
out, and Spearman on the development split, at several points of the training. A training that the
output has is left out. ``draw`` makes the picture and the tables of the page.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import Callback, Trainer

from flowbert.analysis.bits import gaussian_bits
from flowbert.arrays import Floats
from flowbert.encoders import EncoderOptions, open_encoder
from flowbert.flows import bits_per_dim
from flowbert.maps import Whitening
from flowbert.methods import FlowModule
from flowbert.seeding import Stream
from flowbert.tasks import STS, load_task
from flowbert.training import RowsDataModule
from flowbert.training.trainer import quiet_trainer
from flowbert.vectors import EmbeddingCache

ENCODERS = {"minilm-mlm": "first_last", "all-MiniLM-L6-v2": "last"}
COUPLINGS = ("additive", "affine")
INITS = ("actnorm", "whitening")
NOISES = (0.0, 0.05, 1.0, 4.0)
SHRINKAGES = (1e-4, 1e-3, 1e-2, 1e-1)
EPOCHS = (0.25, 0.5, 1, 2, 4)
KEYS = ["encoder", "coupling", "init", "noise", "seed", "data"]


class Vectors:
    """Vectors of an encoder: of all sentences of STS-B, and of two of its splits."""

    def __init__(self, models: Path, senteval: Path, name: str) -> None:
        options = EncoderOptions(str(models / name), layers=ENCODERS[name])
        encoder = open_encoder(options)
        tasks = [load_task("STSB", senteval, split=split) for split in ("dev", "test")]
        self.tasks = [task for task in tasks if isinstance(task, STS)]
        corpus = self.tasks[0].corpus("target").sentences
        cache = EmbeddingCache()
        self.rows: Floats = cache.rows(encoder, corpus)[:]
        self.of_task = [cache.rows(encoder, task.sentences)[:] for task in self.tasks]

    def scores(self, mapped: Any) -> dict[str, float]:
        """Spearman x 100 of both splits, and of pairs by gold score, under a map of rows."""
        found = {}
        for task, rows in zip(self.tasks, self.of_task, strict=True):
            items = task.items(torch.as_tensor(mapped(rows)))
            found[task.split] = 100 * task.score(items)["spearman", "all"]
            if task.split == "dev":
                gold = pd.Series(task.gold)
                for part, chosen in {"below 2": gold < 2, "above 3": gold > 3}.items():
                    pairs = pd.DataFrame({"cosine": items, "gold": gold})[chosen]
                    ranks = pairs.rank()
                    found[part] = 100 * ranks["cosine"].corr(ranks["gold"])
        return found


class Points(Callback):
    """Measure the flow at the start and after some batches."""

    def __init__(self, vectors: Vectors, real: Floats) -> None:
        self.vectors = vectors
        self.real = torch.from_numpy(real)
        self.points: list[dict[str, float]] = []

    def measure(self, trainer: Trainer, epoch: float) -> None:
        """Add a point."""
        flow: Any = trainer.lightning_module.flow
        with torch.no_grad():
            nats = float(flow.eval().nll(self.real).mean())
            scores = self.vectors.scores(lambda x: flow.latents(torch.from_numpy(x)))
        flow.train()
        bits = bits_per_dim(nats, flow.dim)
        self.points.append({"epoch": epoch, "bits": bits, **scores})

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """The initialized flow."""
        self.measure(trainer, 0)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """The flow after a share of an epoch or some."""
        batches = int(trainer.num_training_batches)
        for epoch in EPOCHS:
            if trainer.global_step == round(epoch * batches):
                self.measure(trainer, epoch)


def train(vectors: Vectors, key: dict[str, Any]) -> dict[str, Any]:
    """A training, its points, and the affine map that is nearest to the trained flow."""
    seed = key["seed"]
    real = RowsDataModule(vectors.rows, held_out=0.1, seed=seed)
    fitting, held_out = real.rows[:], real.held_out_rows[:]
    if key["data"] == "gaussian":  # as many rows of the same mean and covariance
        rng = Stream(seed, "gaussian").rng()
        mean, covariance = fitting.mean(axis=0), np.cov(fitting.T)
        drawn = rng.multivariate_normal(mean, covariance, len(fitting))
        data = RowsDataModule(drawn.astype(np.float32), seed=seed)
    else:
        data = RowsDataModule(fitting, seed=seed)
    options = {name: key[name] for name in ("coupling", "init", "noise", "seed")}
    options |= {"learning_rate": 1e-3, "schedule": "constant"}
    module, points = FlowModule(fitting.shape[1], **options), Points(vectors, held_out)
    with quiet_trainer(
        max_epochs=max(EPOCHS),
        limit_val_batches=0,
        accelerator="cpu",
        callbacks=[points],
    ) as trainer:
        trainer.fit(module, datamodule=data)
    latents = module.flow.latents(torch.from_numpy(fitting)).numpy()
    ones = np.ones((len(fitting), 1))
    weight = np.linalg.lstsq(np.hstack([fitting, ones]), latents, rcond=None)[0]
    explained = np.hstack([fitting, ones]) @ weight
    return {
        **key,
        "points": points.points,
        "affine": vectors.scores(lambda x: x @ weight[:-1] + weight[-1]),
        "not affine": float(
            np.square(latents - explained).sum()
            / np.square(latents - latents.mean(0)).sum()
        ),
    }


def closed_forms(vectors: Vectors, name: str) -> Iterator[dict[str, Any]]:
    """Raw vectors and whitening: the line to beat."""
    data = RowsDataModule(vectors.rows, held_out=0.1, seed=0)
    x, y = (part[:].astype(np.float64) for part in (data.rows, data.held_out_rows))
    found = {"encoder": name, "data": "closed form"}
    yield found | {"shrinkage": None, **vectors.scores(lambda rows: rows)}
    for shrinkage in SHRINKAGES:
        whitening = Whitening(shrinkage=shrinkage).fit(x)
        scores = vectors.scores(whitening.transform)
        bits = gaussian_bits(x, y, shrinkage)
        yield found | {"shrinkage": shrinkage, "bits": bits, **scores}


def trainings() -> list[dict[str, Any]]:
    """All trainings, those of the first seed first."""
    every = itertools.product(ENCODERS, NOISES, INITS, COUPLINGS)
    first = [(e, c, i, n, 0, "sentences") for e, n, i, c in every]
    gaussian = [
        (e, c, "actnorm", 0.0, 0, "gaussian") for e in ENCODERS for c in COUPLINGS
    ]
    seeds = [(*each[:4], seed, each[5]) for seed in (1, 2) for each in first]
    # What is certain to end first: the pictures need all noises, the others two of them.
    seeds = [each for each in seeds if each[3] < 1 and each[2] == "actnorm"]
    return [dict(zip(KEYS, each, strict=True)) for each in [*first, *gaussian, *seeds]]


def measure(arguments: argparse.Namespace) -> None:
    """Append what the output lacks, as long as there is time."""
    output, began = arguments.output, time.monotonic()
    lines = output.read_text().splitlines() if output.exists() else []
    known = [json.loads(line) for line in lines]
    done = {tuple(each.get(name) for name in KEYS) for each in known}
    opened: dict[str, Vectors] = {}

    def vectors(name: str) -> Vectors:
        if name not in opened:
            opened[name] = Vectors(arguments.models, arguments.senteval, name)
        return opened[name]

    with output.open("a") as file:
        for name in ENCODERS:
            if not any(
                each["encoder"] == name and "shrinkage" in each for each in known
            ):
                file.writelines(
                    f"{json.dumps(row)}\n" for row in closed_forms(vectors(name), name)
                )
        for key in trainings():
            if time.monotonic() - began > arguments.seconds:
                return
            if tuple(key.values()) not in done:
                row = train(vectors(key["encoder"]), key)
                file.write(f"{json.dumps(row)}\n")
                file.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["measure", "draw"])
    parser.add_argument("--output", type=Path, default=Path("density.jsonl"))
    parser.add_argument("--models", type=Path, default=Path())
    parser.add_argument("--senteval", type=Path, default=Path("senteval"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    measure(arguments)


if __name__ == "__main__":
    main()
