"""The parts of a run, from its options; a mistake in them is told before anything is encoded."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pytorch_lightning.loggers import CSVLogger

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.scored_pairs import SAMPLE_TASK, Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import Encoder, EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.encoder import NOT_LEARNED
from flowbert.errors import UserError, check_choice, first_line
from flowbert.fitting.run_options import FitOptions
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.methods import FlowModule, TextDataModule, make_examples
from flowbert.methods.examples import EXAMPLES
from flowbert.methods.heads import HEADS
from flowbert.numbers import check_limits
from flowbert.options import TRAINED_METHODS, TRAINER_DEFAULTS
from flowbert.registry import import_object
from flowbert.tasks import STS, Task, load_tasks
from flowbert.tasks.sts import training_labels
from flowbert.training import (
    AtomicCheckpointIO,
    RowsDataModule,
    StepLog,
    TaskEvaluation,
    WhiteningBaseline,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.checkpoints import check_fitted_on, claim_folder, find_checkpoint
from flowbert.training.trainer import make_trainer, seeded
from flowbert.vectors import EmbeddingCache, as_vectors

_LOG_TO = ("wandb", "wandb-offline", "tensorboard")
_LOGGERS = "flowbert.extras.loggers"
_FLUSH_EVERY = 20  # rows of metrics.csv


@dataclass(frozen=True, eq=False)
class Run:
    """What a command works with.

    Attributes:
        options: The options.
        folder: The folder that it writes into; other processes than the first learn of it from
            Lightning.
        tasks: The tasks.
        cache: The embedding cache.
        trainer: The Trainer.
        baseline: The closed-form map that a flow is compared with.
        fitted_on: The corpus, examples or vectors.
        encoder: The encoder before the training; None for vectors.
        fitted: The LightningModule, or the map that is fitted in closed form.
        data: The data module.
        pairs: The labelled pairs that a supervised map learns from, as vectors.
    """

    options: FitOptions
    folder: Path
    tasks: Sequence[Task]
    cache: EmbeddingCache
    trainer: Any
    baseline: WhiteningBaseline | None
    fitted_on: Any
    encoder: Any
    fitted: Any
    data: Any
    pairs: LabelledPairs | None = None

    @property
    def device(self) -> Any:
        """Device of the encoder."""
        return self.trainer.strategy.root_device

    def embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training, ``(N, D)``."""
        return self.cache.rows(self.encoder, sentences)[:]


@contextmanager
def prepare_run(command: str, options: FitOptions, folder: Path) -> Iterator[Run]:
    """Prepare a run, and hold its folder meanwhile.

    A run is of one of three kinds: a map that is fitted in closed form, or a flow, on vectors of a
    frozen encoder; or an encoder that is trained.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options.
        folder: The folder to write into.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    options = _checked(options)
    module: Any = None
    if options.method in TRAINED_METHODS:
        module = import_object(TRAINED_METHODS[options.method].module)
    options, saved = _find_checkpoint(options, module)
    closed_form = _closed_form(options, module)
    tasks = _load_tasks(options, "dev" if command == "validate" else "test")
    validated = [
        task.other_split("dev")
        for task in tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]
    trainer = _make_trainer(options, folder, _monitored(options, validated))
    held: Any = nullcontext()
    if trainer.is_global_zero:
        resumed = options.ckpt_path if command == "fit" else None
        held = claim_folder(folder, resumed, command == "fit" and module is not None)
    cache = EmbeddingCache(options.cache)
    opening = options, tasks, saved, trainer.strategy.root_device
    with held, _logging_ended(options):
        with seeded(options.seed):
            if module in (None, FlowModule):
                parts = _on_vectors(*opening, closed_form, cache)
            else:
                parts = _on_text(*opening)
        baseline = None
        if module is FlowModule and closed_form is not None:
            baseline = WhiteningBaseline(closed_form)
        run = Run(options, folder, tasks, cache, trainer, baseline, *parts)
        callbacks: list[Any] = [TaskEvaluation(validated, run.embed, baseline)]
        if baseline is not None:
            baseline.pairs = lambda: run.pairs
            callbacks.insert(0, baseline)
        trainer.callbacks[:0] = callbacks
        if trainer.is_global_zero:
            trainer.loggers += make_loggers(options.log_to, folder)
        yield run


def _on_vectors(
    options: FitOptions,
    tasks: Sequence[Task],
    saved: Mapping[str, Any],
    device: Any,
    closed_form: Map | None,
    cache: EmbeddingCache,
) -> tuple[Any, ...]:
    """Corpus or vectors, encoder, the flow or map, the vectors, and pairs that it learns from."""
    is_flow = options.method in TRAINED_METHODS
    labels = _load_labels(closed_form, tasks)
    pairs = None
    source: Any
    encoder: Any = None
    if options.vectors is not None:
        source = as_vectors(options.vectors, options.column)
        dim = source.shape[1]
    else:
        source = _sample(_load_corpus(options, tasks), options)
        encoder = open_encoder(options.encoder, source.sentences, device)
        dim = encoder.dim
    known = _check_saved(saved, source, encoder, options)
    fitted: Any = closed_form
    if is_flow:
        given = {"dim": dim, "seed": options.seed}
        fitted = _make(FlowModule, "model", options.model, **given)
        fitted.fitted_on = known
    if closed_form is not None:
        closed_form.check(dim, "baseline" if is_flow else "method")
    rows = source
    if encoder is not None:
        texts = [*source.sentences, *(x for task in tasks for x in task.sentences)]
        sides = [] if labels is None else [labels.sentences1, labels.sentences2]
        for side in sides:
            texts += side
        cache.fill([encoder], texts)
        rows = cache.rows(encoder, source.sentences)
        if labels is not None:
            first, second = (cache.rows(encoder, side)[:] for side in sides)
            pairs = first, second, labels.scores
    chosen = options.data if is_flow else {}
    given = known["corpus"] | {"rows": rows, "seed": options.seed}
    data = _make(RowsDataModule, "data", chosen, **given)
    return source, encoder, fitted, data, pairs


def _on_text(
    options: FitOptions, tasks: Sequence[Task], saved: Mapping[str, Any], device: Any
) -> tuple[Any, ...]:
    """Examples, encoder, the module that trains a copy of the encoder, and its batches.

    Raises:
        UserError: If an option is not one of the method's, or the encoder cannot be trained.
    """
    module: Any = import_object(TRAINED_METHODS[options.method].module)
    data, model = dict(options.data or {}), options.model or {}
    text_of = import_object(TRAINED_METHODS[options.method].examples)
    chosen = {
        name: data.pop(name, model.get(name)) for name in signature(text_of).parameters
    }
    text, argument = _make(text_of, "data", chosen), next(iter(chosen), "method")
    function, _ = EXAMPLES.parse(text, argument)
    is_read = "corpus" in signature(function).parameters
    corpus = _load_corpus(options, tasks) if is_read else None
    examples = _sample(
        make_examples(text, corpus, nli=options.nli, tasks=tasks, argument=argument),
        options,
    )
    with warnings.catch_warnings():
        if module.pools:  # token weights are about to be learned
            warnings.filterwarnings("ignore", f".*{NOT_LEARNED}")
        encoder = open_encoder(options.encoder, examples.sentences, device)
    if not isinstance(encoder, SentenceEncoder):
        raise UserError(
            f"received {encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    known = _check_saved(saved, examples, encoder, options)
    trained = SentenceEncoder(
        **encoder.describe(), token_weights=encoder.token_weights, frozen=False
    )
    given = {"encoder": trained, "seed": options.seed}
    batches = _make(TextDataModule, "data", data, examples=examples, **given)
    fitted = _make(module, "model", options.model, **given)
    fitted.check_examples(examples)
    fitted.fitted_on = known
    return examples, encoder, fitted, batches


def _sample(source: Any, options: FitOptions) -> Any:
    """A corpus or examples, or the subset of ``max_sentences``."""
    if options.max_sentences is None:
        return source
    return source.sample(options.max_sentences, options.seed)


def _check_saved(
    saved: Mapping[str, Any], source: Any, encoder: Encoder | None, options: FitOptions
) -> dict[str, Any]:
    """Encoder and corpus in words, which have to be those of the checkpoint, if there is one."""
    known = {
        "encoder": None if encoder is None else encoder.identity,
        "corpus": {"name": source.name, "digest": source.digest},
    }
    if saved:
        check_fitted_on(saved, known, options.ckpt_path)
    return known


def _checked(options: FitOptions) -> FitOptions:
    """The options with the encoder and the loggers in one form; what is cheap is checked."""
    encoder = options.encoder
    if isinstance(encoder, str):
        encoder = EncoderOptions(encoder)
    log_to = as_list(options.log_to or None, "log_to")
    for name in log_to:
        check_choice("log_to", name, _LOG_TO)
    check_limits(FitOptions, vars(options))
    for kind in (RowsDataModule, TextDataModule):
        check_limits(kind, options.data or {})
    return replace(options, encoder=encoder, log_to=log_to)


def _find_checkpoint(
    options: FitOptions, module: Any
) -> tuple[FitOptions, Mapping[str, Any]]:
    """The options with the path of the checkpoint, and encoder and corpus that it was fitted on.

    The latter are empty without a checkpoint, as of a map, or if ``fit`` did not write it.

    Raises:
        UserError: If it is one of another method.
    """
    if module is None or options.ckpt_path is None:
        return replace(options, ckpt_path=None), {}
    path = find_checkpoint(options.ckpt_path, options.run_dir)
    content = read_checkpoint(path)
    if content["module"] != module.__name__:
        raise UserError(
            f"{path} is a checkpoint of {content['module']}; expected one of method "
            f"{options.method}",
            argument="ckpt_path",
        )
    return replace(options, ckpt_path=path), content["fitted_on"]


def _closed_form(options: FitOptions, module: Any) -> Map | None:
    """The map that is fitted in closed form: the method, or the baseline of a flow.

    Raises:
        UserError: If there is neither a method nor a map of that name, or the baseline is of
            another kind.
    """
    if module is None:
        if options.method.isalpha():  # no option, no number
            known = dict.fromkeys([*TRAINED_METHODS, *MAPS])
            check_choice("method", options.method, known)
        return make_map(options.method, "method")
    if module is not FlowModule or options.baseline in (None, "none"):
        return None
    baseline = make_map(str(options.baseline), "baseline")
    if any(step.seeded or step.name == "raw" for step in baseline.parts):
        raise UserError(
            argument="baseline",
            received=options.baseline,
            expected="a map that is fitted in closed form, or none (raw is compared anyway)",
        )
    return baseline


def _load_tasks(options: FitOptions, split: str) -> list[Task]:
    """The tasks that are measured; none with vectors, nor on other text without tasks."""
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


def _load_labels(learner: Map | None, tasks: Sequence[Task]) -> Subset | None:
    """Labelled pairs of the first task, where a map learns from them."""
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


def _monitored(options: FitOptions, validated: Sequence[STS]) -> str | None:
    """The score whose best checkpoint is kept; None for a frozen encoder, which sees no label."""
    if options.method not in {*TRAINED_METHODS} - {"flow"} or not validated:
        return None
    # An encoder that is trained through a map is used through it.
    head = (options.model or {}).get("head")
    name = options.method if head in (None, *HEADS) else f"{options.method}+head"
    return f"{name}/{validated[0].name}/dev/spearman_all"


def _make_trainer(options: FitOptions, folder: Path, monitor: str | None) -> Any:
    """A Trainer that writes into the run folder."""
    checkpoint = options.checkpoint or {}
    saving = checkpoint_callbacks(folder / "checkpoints", monitor, **checkpoint)
    return make_trainer(
        {**TRAINER_DEFAULTS, **(options.trainer or {})},
        callbacks=[StepLog(), *saving],
        plugins=[AtomicCheckpointIO()],
        default_root_dir=str(folder),
    )


def _logging_ended(options: FitOptions) -> Any:
    """A context that ends the run of wandb, if one is logged to."""
    if not options.log_to:
        return nullcontext()
    return import_object(f"{_LOGGERS}.wandb_run_ended")()


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


def _load_corpus(options: FitOptions, tasks: Sequence[Task]) -> Corpus:
    """The corpus of the options; ``target`` and ``train_only`` are those of the first task."""
    if tasks and options.corpus_name in OWN_NAMES:
        # In a comparison, which has each task's own, `target` is another corpus.
        corpus = tasks[0].corpus(options.corpus_name)
        return replace(
            corpus, name=OWN_NAMES[options.corpus_name].format(tasks[0].name)
        )
    source = "target" if options.corpus is None else options.corpus
    return load_corpus(source, nli=options.nli or "hub", column=options.column)


def _make(
    function: Callable[..., Any],
    group: str,
    options: Mapping[str, Any] | None,
    **given: Any,
) -> Any:
    """Call with options of a group; those that are None are left out.

    Raises:
        UserError: If one of them is not a parameter.
    """
    known = {name: x for name, x in (options or {}).items() if x is not None}
    try:
        return function(**given, **known)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(first_line(error), argument=group) from error
