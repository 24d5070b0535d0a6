"""The ways to the figures of a map: each gives rows of the one long table, or vectors.

A way takes a :class:`Lab` and the specification of a map, and gives what it says of the map, or
raises a UserError. Nothing but the way differs: encoder, corpus, task, labels and seed are the
lab's.
"""

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import Callback

from flowbert import fitting
from flowbert.data.corpus import OWN_NAMES
from flowbert.data.sample import SPLITS, sample_pairs
from flowbert.encoders import open_encoder
from flowbert.encoding import encode
from flowbert.errors import UserError
from flowbert.experiments import compare
from flowbert.extras.export import SentenceTransformers, export
from flowbert.maps import make_map
from flowbert.model import Model
from flowbert.options import TRAINED_METHODS
from flowbert.tasks import STS, load_task
from flowbert.vectors import EmbeddingCache

TRAINER = {
    "accelerator": "cpu",
    "devices": 1,
    "enable_progress_bar": False,
}
TRAINED = [name for name in TRAINED_METHODS if name != "flow"]
INDEX = ["task", "split", "metric", "aggregation"]
SAYS = ["method", "corpus", "seed", "supervised", "pairs", "reason"]
"""Columns that name a figure, and those that say of what it is."""


def write_task(folder, sizes):
    """A data folder with the task ``Chinese-STS-B`` of the first pairs of the sample's splits."""
    task = folder / "STS-B"
    task.mkdir(parents=True)
    for split in SPLITS:
        pairs = sample_pairs(split)[: sizes[split]]
        lines = ["\t".join(map(str, pair)) for pair in pairs]
        (task / f"STS-B.{split}.tsv").write_text("\n".join(lines))
    return folder


class Done(NamedTuple):
    """What a run left: its folder, and what it returned."""

    folder: Path
    results: Any

    @property
    def checkpoint(self):
        return self.folder / "checkpoints" / "last.ckpt"


class Lab:
    """One encoder, corpus, task and seed, and what several ways share.

    Args:
        folder: An empty folder to work in.
        encoder: The encoder.
        task: Name of a task with the splits train, dev and test.
        senteval: Its data folder.
    """

    unknown: tuple[str, ...] = ("corpus", "seed")
    """Columns that say of a fit what its model does not."""

    def __init__(self, folder, encoder, task, senteval):
        self.folder = folder
        self.options = encoder
        self.place = task, senteval
        self.data: dict[str, Any] = {"tasks": task, "senteval": str(senteval)}
        self._kept = {}

    @cached_property
    def encoder(self):
        return open_encoder(self.options)

    @cached_property
    def task(self):
        loaded = load_task(self.data["tasks"], self.data["senteval"])
        assert isinstance(loaded, STS)
        return loaded

    def once(self, make, *key):
        """What a function makes, made once for a key."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def embed(self, sentences):
        """Vectors of a pass that others have filled: another pass moves the last digits."""
        return EmbeddingCache().rows(self.encoder, sentences)[:]

    def new_folder(self):
        """A path in the lab that does not exist."""
        return self.folder / f"folder-{len(list(self.folder.iterdir()))}"

    def compare(self, methods, split="test", **options):
        options = {"bootstrap": 0, **self.data, **options}
        return compare(self.encoder, methods, split=split, **options)

    def reference(self, method, split="test"):
        """Rows of a comparison of the method alone: what every way is to give."""
        results = self.once(lambda: self.compare([method], split), method, split)
        return rows_of(results, method)

    def run(self, method, **options):
        """A run of a method."""
        trainer = TRAINER | options.pop("trainer", {})
        own = {"run_dir": self.new_folder(), "baseline": None, "bootstrap": 0}
        own |= self.data
        options = own | options
        returned = fitting.fit(method, self.options, trainer=trainer, **options)
        return Done(Path(options["run_dir"]), returned)

    def measured(self, run, command="test"):
        """Results of a run's last checkpoint."""
        function = getattr(fitting, command)
        trainer = TRAINER | {"strategy": "auto"}
        return function(run.folder, trainer=trainer, run_dir=self.new_folder())

    def fitted(self, method):
        """The finished fit, at the defaults; fitted once."""
        return self.once(lambda: self.run(method), method)

    def checkpoint(self, method):
        """The checkpoint of that run; a flow's for a method without one."""
        file = self.fitted(method).checkpoint
        return file if file.exists() else self.fitted("flow").checkpoint

    def exported(self, method):
        """That run as a folder of sentence-transformers; exported once."""
        folder, to = self.fitted(method).folder, self.new_folder()
        name = file_name(method)
        return self.once(lambda: export(folder, to, method=name), "exported", method)

    def measure(self, vectors):
        """Figures of vectors of the task's sentences, ``(M, k)``; they say nothing else."""
        measured = self.task.measure(torch.as_tensor(np.asarray(vectors)))
        task = self.task.name, self.task.split
        rows = [(*task, *key, value) for key, value in measured.scores.items()]
        return pd.DataFrame(rows, columns=[*INDEX, "value"]).set_index(INDEX)


def frame_of(results, method):
    """Rows of a method; of vectors without a map those of these layers."""
    frame = results.frame[results.frame["method"] == method]
    assert len(frame), f"no row of {method!r}, but {set(results.frame['method'])}"
    is_reference = frame["role"] == "reference"
    return frame if is_reference.all() else frame[~is_reference]


def rows_of(results, method, unknown=()):
    """Rows of a method, by the name of the figure.

    Args:
        results: The results.
        method: Its name in them.
        unknown: Columns that the way does not know.
    """
    frame = frame_of(results, method)
    says = [name for name in SAYS if name not in unknown]
    # A fit names the task of its corpus; here it is the only one.
    (task,) = frame["task"].unique()
    own_names = {text.format(task): name for name, text in OWN_NAMES.items()}
    frame = frame.replace({"corpus": own_names})
    return frame.set_index(INDEX)[[*says, "value"]]


def assert_same(rows, expected):
    """Figures are equal to the last digit, and so is what both say of them."""
    columns = rows.columns.intersection(expected.columns)
    pd.testing.assert_frame_equal(
        rows[columns],
        expected[columns],
        check_exact=True,
        check_dtype=False,
        check_like=True,
    )


def unless_refused(way, *given):
    """What a way gives; None where it refuses, which it does in one line."""
    try:
        return way(*given)
    except UserError as error:
        message = str(error)
    assert message
    assert "\n" not in message
    return None


def file_name(method):
    """Name of a map in a model's folder: those of its steps; None of a trained encoder."""
    if method in TRAINED:
        return None
    return "+".join(step.name for step in make_map(method).parts)


class Interrupt(Callback):
    """Ctrl-C in a batch."""

    def __init__(self, batch: int):
        self.batch = batch

    def on_train_batch_start(self, trainer, *_):
        if trainer.fit_loop.total_batch_idx == self.batch:
            raise KeyboardInterrupt


# --------------------------------------------------------------------- compare and fit


def with_others(lab, method):
    """``compare`` with other methods, before and after."""
    others = ["zca:shrinkage=0.3", method, "standardization+truncation-4"]
    return rows_of(lab.compare(others), method)


def fit(lab, method):
    """``fit``."""
    return rows_of(lab.fitted(method).results, method)


def by_test(lab, method):
    """``test`` with the checkpoint of the fit."""
    return rows_of(lab.measured(lab.fitted(method)), method)


def by_validate(lab, method):
    """``validate`` with the checkpoint of the fit: figures of the development split."""
    return rows_of(lab.measured(lab.fitted(method), "validate"), method)


def baseline(lab, method):
    """As the baseline beside a flow."""
    run = lab.run("flow", baseline=method, trainer={"max_steps": 1})
    return rows_of(run.results, method)


def resumed(lab, method):
    """``fit`` that is interrupted and resumed."""
    stopped = Done(lab.new_folder(), None)
    checkpoint = {"every_n_steps": 1}
    trainer = {"callbacks": [Interrupt(4)]}
    with suppress(KeyboardInterrupt, SystemExit):
        lab.run(method, run_dir=stopped.folder, checkpoint=checkpoint, trainer=trainer)
    file = stopped.checkpoint
    given = file if file.exists() else lab.checkpoint(method)
    again = lab.run(method, checkpoint=checkpoint, ckpt_path=given)
    return rows_of(again.results, method)


# --------------------------------------------------------------------------- in chains


def in_a_chain(lab, method):
    """In a chain, between steps that change nothing."""
    chain = f"truncation+{method}+truncation"
    # Raw alone is of no corpus; the other steps have one.
    unknown = ("method", "corpus") if method == "raw" else ("method",)
    return rows_of(lab.compare([chain]), chain, unknown)


# --------------------------------------------------------------------------- in Python


def python(lab, method):
    """The map fitted by hand, as users of scikit-learn do; its vectors measured by the task."""
    made = make_map(method)
    labels = lab.task.labels()
    left = lab.embed([text for subset in labels for text in subset.sentences1])
    right = lab.embed([text for subset in labels for text in subset.sentences2])
    scores = np.concatenate([subset.scores for subset in labels])
    rows = lab.embed(lab.task.corpus("target").sentences)
    made.fit(rows, pairs=(left, right, scores))
    return lab.measure(made.transform(lab.embed(lab.task.sentences)))


# --------------------------------------------------------------------- saved and loaded


def saved_model(lab, method):
    """The model of the fit, loaded and given to ``compare``."""
    model = Model.load(lab.fitted(method).folder, file_name(method))
    results = lab.compare({method: model})
    return rows_of(results, method, lab.unknown)


def exported_model(lab, method):
    """The exported folder, loaded by this package and given to ``compare``."""
    model = Model.load(lab.exported(method), file_name(method))
    results = lab.compare({method: model})
    return rows_of(results, method, ("corpus", "seed"))


FIGURES = [
    with_others,
    fit,
    by_test,
    baseline,
    resumed,
    in_a_chain,
    python,
    saved_model,
    exported_model,
]
"""Ways whose figures are equal to the last digit: all do the same sums."""

# ------------------------------------------------------------- vectors of other passes


def encoded(lab, method):
    """``encode`` with the model of the fit."""
    folder = str(lab.fitted(method).folder)
    vectors = encode(lab.task.sentences, model=folder, method=file_name(method))
    return np.asarray(vectors)


def sentence_transformers(lab, method):
    """sentence-transformers with the exported folder."""
    return np.asarray(
        SentenceTransformers().encode(lab.exported(method), lab.task.sentences)
    )


VECTORS = [encoded, sentence_transformers]
"""Ways that encode the sentences anew, in other batches or by another program."""


def may_refuse(way, method):
    """Whether a way is closed to a method: a run to one that learns from labels, a checkpoint to
    one that no Trainer fits, sentence-transformers to maps of views.
    """
    if way in (with_others, in_a_chain, python):
        return False
    if method in TRAINED_METHODS:
        return way is baseline
    closed = (by_test, by_validate, baseline, resumed)
    if method == "views" and way in (exported_model, sentence_transformers):
        return True
    return way in closed or make_map(method).supervised
