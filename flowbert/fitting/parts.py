"""The parts of a run, made from its options; mistakes are errors before anything is encoded."""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.scored_pairs import SAMPLE_TASK, Subset
from flowbert.encoders import Embedder, open_encoder
from flowbert.errors import UserError, check_choice
from flowbert.fitting.run_options import write_config
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.maps.flow_module import FlowModule
from flowbert.options import (
    TRAINED_METHODS,
    TRAINER_DEFAULTS,
    FitOptions,
)
from flowbert.registry import import_object
from flowbert.tasks import STS, Task, load_tasks
from flowbert.tasks.sts import training_labels
from flowbert.training import (
    RowsDataModule,
    StepLog,
    TaskEvaluation,
    VectorWriter,
    WhiteningBaseline,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.run_folder import claim_folder, find_checkpoint, is_first_process
from flowbert.training.trainer import make_trainer
from flowbert.vectors import EmbeddingCache, Vectors, as_vectors

_LOGGERS = "flowbert.extras.loggers"
_FLUSH_EVERY = 20  # rows of metrics.csv


def methods_on_text() -> Any:
    """The module with the parts of a run that trains an encoder."""
    return import_module("flowbert.methods.runs")


def find_checkpoint_of(options: FitOptions) -> tuple[FitOptions, Mapping[str, Any]]:
    """The options with the path of the checkpoint, and the encoder and corpus of its fit.

    The latter are empty without a checkpoint (a map has none), or if ``fit`` did not write it.

    Raises:
        UserError: If the checkpoint belongs to another method.
    """
    if options.method not in TRAINED_METHODS or options.ckpt_path is None:
        return replace(options, ckpt_path=None), {}
    path = find_checkpoint(options.ckpt_path, options.run_dir)
    content = read_checkpoint(path)
    module = TRAINED_METHODS[options.method].module.rpartition(".")[2]
    if content["module"] != module:
        raise UserError(
            f"{path} is a checkpoint of {content['module']}; expected one of method "
            f"{options.method}",
            argument="ckpt_path",
        )
    return replace(options, ckpt_path=path), content["fitted_on"]


def make_closed_form(options: FitOptions) -> Map | None:
    """The map that is fitted in closed form: the method, or the baseline of a flow.

    Raises:
        UserError: If no method and no map has the name, or the baseline is not a closed-form map.
    """
    if options.method not in TRAINED_METHODS:
        if options.method.isalpha():  # no option, no number
            known = dict.fromkeys([*TRAINED_METHODS, *MAPS])
            check_choice("method", options.method, known)
        return make_map(options.method, "method")
    if options.trains_encoder or options.baseline in (None, "none"):
        return None
    baseline = make_map(str(options.baseline), "baseline")
    if any(step.seeded or step.name == "raw" for step in baseline.parts):
        raise UserError(
            argument="baseline",
            received=options.baseline,
            expected="a map that is fitted in closed form, or none (raw is compared anyway)",
        )
    return baseline


def load_tasks_of(options: FitOptions, split: str) -> list[Task]:
    """The tasks to measure; empty with vectors, or with other text and no option ``tasks``."""
    if options.vectors is not None:
        return []
    if options.tasks is None and not options.fits_on_sample:
        return []  # scores on the generated SAMPLE would say nothing about that text
    return load_tasks(
        SAMPLE_TASK if options.tasks is None else options.tasks,
        options.senteval,
        split=split,
        columns=options.columns,
        score_range=options.score_range,
        skip_invalid=bool(options.skip_invalid),
        positive_above=options.positive_above,
        uniformity_limit=options.uniformity_limit,
    )


def _development_tasks(tasks: Sequence[Task]) -> list[STS]:
    """The development splits that every validation measures."""
    return [
        task.other_split("dev")
        for task in tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]


def claim(command: str, options: FitOptions, folder: Path) -> Any:
    """A context that locks the folder, on the first process."""
    if not is_first_process():
        return nullcontext()
    resumed = options.ckpt_path if command == "fit" else None
    is_resumable = command == "fit" and options.method in TRAINED_METHODS
    return claim_folder(folder, resumed, is_resumable)


def logging_ended(options: FitOptions) -> Any:
    """A context that ends the run of a wandb logger."""
    if not options.log_to:
        return nullcontext()
    return import_object(f"{_LOGGERS}.wandb_run_ended")()


def make_trainer_of(options: FitOptions, folder: Path, tasks: Sequence[Task]) -> Any:
    """A Trainer that writes into the run folder.

    Only the training of an encoder keeps ``best.ckpt``: a flow is not chosen by labels.
    """
    monitor = None
    if options.trains_encoder and (validated := _development_tasks(tasks)):
        method = methods_on_text().measured_name(options)
        monitor = f"{method}/{validated[0].name}/dev/spearman_all"
    times = {} if options.checkpoint is None else vars(options.checkpoint)
    saving = checkpoint_callbacks(folder / "checkpoints", monitor, **times)
    return make_trainer(
        {**TRAINER_DEFAULTS, **(options.trainer or {})},
        callbacks=[StepLog(), *saving],
        default_root_dir=str(folder),
    )


def add_outputs(
    command: str,
    trainer: Any,
    options: FitOptions,
    folder: Path,
    shape: tuple[int, int],
) -> None:
    """Add loggers, or the writer of a prediction of this shape; write the options of a fit."""
    if command == "predict":
        writer = VectorWriter(folder / "predictions.npy", shape)
        trainer.callbacks.append(writer)
    if trainer.is_global_zero:
        trainer.loggers += make_loggers(options.log_to, folder)
        if command == "fit":
            write_config(options, folder)


def make_loggers(names: Sequence[str], folder: Path) -> list[Any]:
    """The loggers of a run; metrics.csv of an interrupted one is kept as metrics-1.csv."""
    metrics = folder / "metrics.csv"
    if metrics.exists():
        numbers = itertools.count(1)
        earlier = next(n for n in numbers if not (folder / f"metrics-{n}.csv").exists())
        metrics.rename(folder / f"metrics-{earlier}.csv")
    csv = CSVLogger(folder, name="", version="", flush_logs_every_n_steps=_FLUSH_EVERY)
    if not names:
        return [csv]
    return [csv, *import_object(f"{_LOGGERS}.make_named_loggers")(names, folder)]


def load_labels_of(learner: Map | None, tasks: Sequence[Task]) -> Subset | None:
    """Labelled pairs of the first task, if a map learns from them."""
    if learner is None or not learner.supervised:
        return None
    if not tasks:
        raise UserError(
            f"received none, or vectors; expected sentences with a task, of whose labelled pairs "
            f"{learner.text} learns",
            argument="tasks",
        )
    instead = "another task; compare --drop_overlap true leaves them out"
    return training_labels(tasks[0], tasks, expected=instead, argument="tasks")


def load_source(options: FitOptions, tasks: Sequence[Task]) -> Any:
    """The vectors, the corpus, or the examples of a method that trains an encoder."""
    if options.trains_encoder:
        source = methods_on_text().load_examples(
            options, tasks, partial(_load_corpus, options, tasks)
        )
    elif options.vectors is not None:
        return as_vectors(options.vectors, options.column)
    else:
        source = _load_corpus(options, tasks)
    if options.max_sentences is None:
        return source
    return source.sample(options.max_sentences, options.seed)


def _load_corpus(options: FitOptions, tasks: Sequence[Task]) -> Corpus:
    """The corpus of the options; ``target`` and ``train_only`` refer to the first task."""
    if tasks and options.corpus_name in OWN_NAMES:
        # In a comparison, which has each task's own, `target` is another corpus.
        corpus = tasks[0].corpus(options.corpus_name)
        return replace(
            corpus, name=OWN_NAMES[options.corpus_name].format(tasks[0].name)
        )
    source = "target" if options.corpus is None else options.corpus
    return load_corpus(source, nli=options.nli or "hub", column=options.column)


def open_encoder_of(options: FitOptions, source: Any, device: Any) -> Any:
    """The encoder; None for vectors.

    Raises:
        UserError: If it cannot be opened, or cannot be trained but must be.
    """
    if options.trains_encoder:
        return methods_on_text().open_frozen(options, source.sentences, device)
    if options.vectors is not None:
        return None
    return open_encoder(options.encoder, source.sentences, device)


def describe_fitted(encoder: Embedder | None, source: Any) -> dict[str, Any]:
    """Identity of the encoder, and name and digest of the corpus, as stored in checkpoints."""
    identity = None if encoder is None else encoder.identity
    corpus = {"name": source.name, "digest": source.digest}
    return {"encoder": identity, "corpus": corpus}


def make_flow(options: FitOptions, dim: int, closed_form: Map | None) -> Any:
    """The module of a flow, or None for a map; checks the options for this vector size."""
    module = None
    if options.method in TRAINED_METHODS:
        module = FlowModule(dim, options.seed, **vars(options.model))
    if closed_form is not None:
        closed_form.check(dim, "method" if module is None else "baseline")
    return module


def embed(
    cache: EmbeddingCache,
    encoder: Any,
    source: Any,
    tasks: Sequence[Task],
    labels: Subset | None,
) -> tuple[Vectors, LabelledPairs | None]:
    """Vectors of the corpus and of labelled pairs; also caches the vectors of the tasks."""
    if encoder is None:
        return source, None
    sides = [] if labels is None else [labels.sentences1, labels.sentences2]
    texts = [*source.sentences, *(x for task in tasks for x in task.sentences)]
    cache.fill([encoder], [*texts, *itertools.chain(*sides)])
    rows = cache.rows(encoder, source.sentences)
    if labels is None:
        return rows, None
    first, second = (cache.rows(encoder, side)[:] for side in sides)
    return rows, (first, second, labels.scores)


def make_batches(options: FitOptions, rows: Vectors, source: Any) -> RowsDataModule:
    """Batches of the vectors; all of them for a map."""
    batches = {} if options.data is None else vars(options.data)
    about = {"name": source.name, "digest": source.digest}
    return RowsDataModule(rows, seed=options.seed, **about, **batches)


def make_evaluations(
    tasks: Sequence[Task],
    cache: EmbeddingCache,
    encoder: Any,
    closed_form: Map | None,
    pairs: LabelledPairs | None,
) -> list[Any]:
    """Callbacks that fit the baseline and measure in each validation."""

    def embed(sentences: Sequence[str]) -> Any:
        return cache.rows(encoder, sentences)[:]

    baseline = []
    if closed_form is not None:
        baseline = [WhiteningBaseline(closed_form, pairs)]
    return [*baseline, TaskEvaluation(_development_tasks(tasks), embed, *baseline)]
