"""Bits per dimension against Spearman along the training of a flow: docs/research/flow-density.md.

``python -m tools.density_similarity measure`` trains flows on the sentences of STS-B and appends a
line to the output for each training: bits per dimension of a tenth of the sentences, which is held
out, and Spearman on the development split, at several points of the training. A training that the
output has is left out. ``draw`` makes the picture of the page, ``tabulate`` its figures.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import Callback, Trainer

from flowbert.arrays import Floats
from flowbert.encoders import EncoderOptions, open_encoder
from flowbert.errors import UserError
from flowbert.extras.analysis.bits import gaussian_bits
from flowbert.flows import bits_per_dim
from flowbert.maps import Whitening
from flowbert.methods import FlowModule
from flowbert.seeding import Stream
from flowbert.tasks import STS, load_task
from flowbert.training import RowsDataModule
from flowbert.training.trainer import quiet_lightning
from flowbert.vectors import EmbeddingCache
from tools.pictures import save_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENCODERS = {"minilm-mlm": "first_last", "all-MiniLM-L6-v2": "last"}
COUPLINGS = ("additive", "affine")
INITS = ("actnorm", "whitening")
NOISES = (0.0, 0.05, 1.0, 4.0)
SEEDS = (0, 1, 2)
SHRINKAGES = (1e-4, 1e-3, 1e-2, 1e-1)
EPOCHS = (0.25, 0.5, 1, 2, 4)
HARDLY_VARIES = 1e-6  # standard deviation of a dimension
KEYS = ["encoder", "coupling", "init", "noise", "seed", "data"]


class Vectors:
    """Vectors of an encoder: of all sentences of STS-B, and of two of its splits.

    With ``varying``, of the dimensions alone that vary: three of all-MiniLM-L6-v2 do not.
    """

    def __init__(
        self, models: Path, senteval: Path, name: str, varying: bool = False
    ) -> None:
        options = EncoderOptions(str(models / name), layers=ENCODERS[name])
        encoder = open_encoder(options)
        tasks = [load_task("STSB", senteval, split=split) for split in ("dev", "test")]
        self.tasks = [task for task in tasks if isinstance(task, STS)]
        corpus = self.tasks[0].corpus("target").sentences
        cache = EmbeddingCache()
        self.rows: Floats = cache.rows(encoder, corpus)[:]
        self.of_task = [cache.rows(encoder, task.sentences)[:] for task in self.tasks]
        if varying:
            kept = self.rows.std(axis=0) > HARDLY_VARIES
            self.rows = self.rows[:, kept]
            self.of_task = [rows[:, kept] for rows in self.of_task]

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
            nats = float(-flow.eval().log_prob(self.real).mean())
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


class Distances:
    """Mahalanobis distances of rows to their mean, and rows that have the same one.

    A row that moves along the line through the mean keeps its cosines with all others under every
    linear map around the mean, thus under whitening. What a flow makes of such rows shows what the
    distances do.
    """

    def __init__(self, rows: Floats) -> None:
        self.whitening = Whitening(shrinkage=1e-2).fit(rows)
        self.mean = rows.mean(axis=0)
        self.common = float(np.median(self.of(rows)))

    def of(self, rows: Floats) -> Floats:
        """Distances ``(N,)`` of rows ``(N, D)``."""
        distances: Floats = np.linalg.norm(self.whitening.transform(rows), axis=1)
        return distances

    def made_equal(self, rows: Floats) -> Floats:
        """Rows at the median distance, ``(N, D)``."""
        factors = self.common / self.of(rows)[:, None]
        moved: Floats = self.mean + factors * (rows - self.mean)
        return moved

    def kept(self, rows: Floats, latents: Floats) -> dict[str, float]:
        """Rank correlation of distances before and after, and both standard deviations."""
        before, after = self.of(rows), np.linalg.norm(latents, axis=1)
        spread = {
            name: float(each.std() / each.mean())
            for name, each in {"before": before, "after": after}.items()
        }
        ranks = pd.DataFrame({"before": before, "after": after}).rank()
        return spread | {"correlation": ranks["before"].corr(ranks["after"])}


def train(vectors: Vectors, key: dict[str, Any]) -> dict[str, Any]:
    """A training, its points, and what the trained flow does: affine part and distances."""
    seed = key["seed"]
    real = RowsDataModule(vectors.rows, held_out=0.1, seed=seed)
    fitting, held_out = real.rows[:], real.held_out_rows[:]
    if "gaussian" in key["data"]:  # as many rows of the same mean and covariance
        rng = Stream(seed, "gaussian").rng()
        mean, covariance = fitting.mean(axis=0), np.cov(fitting.T)
        drawn = rng.multivariate_normal(mean, covariance, len(fitting))
        data = RowsDataModule(drawn.astype(np.float32), seed=seed)
    else:
        data = RowsDataModule(fitting, seed=seed)
    options = {name: key[name] for name in ("coupling", "init", "noise", "seed")}
    options |= {"learning_rate": 1e-3, "schedule": "constant"}
    module, points = FlowModule(fitting.shape[1], **options), Points(vectors, held_out)
    with quiet_lightning(), torch.random.fork_rng():
        trainer = Trainer(
            max_epochs=int(max(EPOCHS)),
            limit_val_batches=0,
            accelerator="cpu",
            devices=1,
            callbacks=[points],
            gradient_clip_val=1.0,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        try:
            trainer.fit(module, datamodule=data)
        except UserError as error:  # the loss is not finite
            return {**key, "failed": str(error), "points": points.points}

    def flow(rows: Floats) -> Floats:
        latents: Floats = module.flow.latents(torch.from_numpy(rows)).numpy()
        return latents

    distances = Distances(fitting)
    latents = flow(fitting)
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
        "one distance": vectors.scores(lambda x: flow(distances.made_equal(x))),
        "distances": distances.kept(held_out, flow(held_out)),
    }


def closed_forms(vectors: Vectors, name: str) -> Iterator[dict[str, Any]]:
    """Raw vectors and whitening: the line to beat."""
    data = RowsDataModule(vectors.rows, held_out=0.1, seed=0)
    x, y = (part[:].astype(np.float64) for part in (data.rows, data.held_out_rows))
    found = {"encoder": name, "data": "closed form"}
    smallest = np.sort(x.std(axis=0))[:4].tolist()
    raw = vectors.scores(lambda rows: rows)
    yield found | {"shrinkage": None, "smallest deviations": smallest, **raw}
    for shrinkage in SHRINKAGES:
        whitening = Whitening(shrinkage=shrinkage).fit(x)
        scores = vectors.scores(whitening.transform)
        bits = gaussian_bits(x, y, shrinkage)
        yield found | {"shrinkage": shrinkage, "bits": bits, **scores}


def trainings() -> list[dict[str, Any]]:
    """All trainings, in the order in which they are wanted."""
    every = [
        (encoder, coupling, init, noise, seed, "sentences")
        for noise, seed, encoder, init, coupling in itertools.product(
            (0.05, 0.0, 1.0, 4.0), SEEDS, ENCODERS, INITS, COUPLINGS
        )
    ]
    whys = ("varying sentences", "gaussian", "varying gaussian")
    explained = [
        (encoder, coupling, "actnorm", 0.0, seed, data)
        for seed, encoder, data, coupling in itertools.product(
            SEEDS, ENCODERS, whys, COUPLINGS
        )
    ]
    return [dict(zip(KEYS, each, strict=True)) for each in [*every, *explained]]


def measure(arguments: argparse.Namespace) -> None:
    """Append what the output lacks, as long as there is time."""
    output, began = arguments.output, time.monotonic()
    lines = output.read_text().splitlines() if output.exists() else []
    known = [json.loads(line) for line in lines]
    done = {tuple(each.get(name) for name in KEYS) for each in known}
    opened: dict[tuple[str, bool], Vectors] = {}

    def vectors(name: str, varying: bool = False) -> Vectors:
        if (name, varying) not in opened:
            folders = arguments.models, arguments.senteval
            opened[name, varying] = Vectors(*folders, name, varying)
        return opened[name, varying]

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
                row = train(vectors(key["encoder"], "varying" in key["data"]), key)
                file.write(f"{json.dumps(row)}\n")
                file.flush()


def read(output: Path) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """All lines, and the points of all trainings with what names each."""
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    frames = [
        pd.DataFrame(row["points"]).assign(**{name: row[name] for name in KEYS})
        for row in rows
        if "points" in row and "failed" not in row
    ]
    return rows, pd.concat(frames)


def draw(arguments: argparse.Namespace) -> None:
    """Write the picture."""
    rows, points = read(arguments.output)
    save_pictures(lambda: draw_figure(rows, points), arguments.picture)


def draw_figure(rows: list[dict[str, Any]], points: pd.DataFrame) -> "Figure":
    """A thin line for each seed, a line with markers for their mean."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    ink = rcParams["text.color"]
    points = points[(points["epoch"] > 0) & (points["data"] == "sentences")]
    colours = dict(
        zip(NOISES, ("#4c6ef5", "#b04fc9", "#d8576b", "#f0a030"), strict=True)
    )
    styles = {"additive": "-", "affine": "--"}
    markers = {"actnorm": "o", "whitening": "^"}
    figure = Figure((9.5, 4.8), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, name in zip(axes, ENCODERS, strict=True):
        own = points[points["encoder"] == name]
        for key, group in own.groupby(["noise", "coupling", "init"]):
            noise, coupling, init = key
            look: dict[str, Any] = {"color": colours[noise], "ls": styles[coupling]}
            for _, run in group.groupby("seed"):
                ax.plot(run["bits"], run["dev"], lw=0.6, alpha=0.35, **look)
            mean = group.groupby("epoch")[["bits", "dev"]].mean()
            look |= {"marker": markers[init], "ms": 4, "lw": 1.2}
            ax.plot(mean["bits"], mean["dev"], **look)
        closed = [row for row in rows if row["encoder"] == name]
        whitening = pd.DataFrame([row for row in closed if row.get("shrinkage")])
        ax.plot(whitening["bits"], whitening["dev"], "*-", color=ink, ms=8, lw=1.2)
        ax.set(
            title=name,
            xlabel="bits per dimension, held-out sentences (lower is better)",
        )
    axes[0].set_ylabel("Spearman x 100, STS-B dev")
    entries: list[tuple[str, dict[str, Any]]] = [
        ("whitening, shrinkage 0.0001 to 0.1", {"color": ink, "marker": "*"})
    ]
    entries += [(f"noise {n:g}", {"color": colour}) for n, colour in colours.items()]
    entries += [
        (name, {"color": "gray", "ls": style}) for name, style in styles.items()
    ]
    entries += [
        (f"init={name}", {"color": "gray", "marker": marker, "ls": ""})
        for name, marker in markers.items()
    ]
    lines = [Line2D([], [], label=label, **look) for label, look in entries]
    figure.legend(handles=lines, loc="outside lower center", ncols=5)
    return figure


def tabulate(arguments: argparse.Namespace) -> None:
    """The figures of the page: mean and range over the seeds."""
    rows, points = read(arguments.output)
    group = [name for name in KEYS if name != "seed"]
    means = points.groupby([*group, "epoch"])["dev"].mean().drop(0, level="epoch")
    best = means.groupby(group).idxmax()  # chosen on the development split
    ends = points.drop_duplicates(KEYS, keep="last")
    trained = pd.DataFrame(
        [
            {name: row[name] for name in KEYS}
            | {"affine": row["affine"]["dev"], "not affine": 100 * row["not affine"]}
            | {"one distance": row["one distance"]["dev"], **row["distances"]}
            for row in rows
            if "distances" in row
        ]
    )
    ends = ends.merge(trained, on=KEYS)
    for name in ("affine", "one distance"):
        ends[f"{name} - dev"] = ends[name] - ends["dev"]
    chosen = points.set_index([*group, "epoch"]).loc[list(best)].reset_index()
    beginnings = points[points["epoch"] == 0]
    tables = {
        "At the start": (beginnings, ["bits", "dev"]),
        "The epoch with the best mean on the development split": (
            chosen,
            ["bits", "dev", "test"],
        ),
        "After the last epoch": (ends, ["bits", "dev", "below 2", "above 3"]),
        "The last flow: its affine part, all vectors at one distance to the mean": (
            ends,
            ["affine - dev", "not affine", "one distance - dev"],
        ),
        "Distances to the mean: standard deviation by mean, rank correlation": (
            ends,
            ["before", "after", "correlation"],
        ),
    }
    for title, (frame, columns) in tables.items():
        by = [*group, "epoch"]
        counts = frame.groupby(by)["seed"].nunique().rename("seeds")
        cells = {name: frame.groupby(by)[name].apply(over_seeds) for name in columns}
        print(f"\n{title}\n{pd.DataFrame({'seeds': counts, **cells}).to_string()}")
    for row in rows:
        if "failed" in row:
            print({name: row[name] for name in [*KEYS, "failed"]})
        elif row["data"] == "closed form":
            print(row)


def over_seeds(values: "pd.Series[float]") -> str:
    """Mean and range."""
    return f"{values.mean():.3f} [{values.min():.3f}, {values.max():.3f}]"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {"measure": measure, "draw": draw, "tabulate": tabulate}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--output", type=Path, default=Path("density.jsonl"))
    parser.add_argument("--models", type=Path, default=Path())
    parser.add_argument("--senteval", type=Path, default=Path("senteval"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--picture", type=Path, default=Path("flow-density"))
    arguments = parser.parse_args()
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
