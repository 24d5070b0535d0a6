"""The parts of a run, from its options; a mistake in them is told before anything is encoded."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.scored_pairs import SAMPLE_TASK, Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import Encoder, EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.encoder import NOT_LEARNED
from flowbert.errors import UserError, check_choice, first_line
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.methods import FlowModule, TextDataModule, make_examples
from flowbert.methods.examples import EXAMPLES, Examples
from flowbert.methods.heads import HEADS
from flowbert.numbers import check_limits
from flowbert.options import TRAINED_METHODS, TRAINER_DEFAULTS, FitOptions
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
from flowbert.training.checkpoints import check_fitted_on
from flowbert.training.run_folder import claim_folder, find_checkpoint
from flowbert.training.trainer import make_trainer, seeded
from flowbert.vectors import EmbeddingCache, Vectors, as_vectors

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
        source: The vectors, corpus or examples that the method is fitted on.
        encoder: The encoder before the training; None for vectors.
        module: The LightningModule; None for a map that is fitted in closed form.
        map: That map; or the baseline of a flow, which the Trainer fits; or None.
        data: The data module.
        pairs: The labelled pairs that a supervised map learns from, as vectors.
    """

    options: FitOptions
    folder: Path
    tasks: Sequence[Task]
    cache: EmbeddingCache
    trainer: Any
    source: Any
    encoder: Any
    module: Any
    map: Any
    data: Any
    pairs: LabelledPairs | None

    @property
    def device(self) -> Any:
        """Device of the encoder."""
        return self.trainer.strategy.root_device


@contextmanager
def prepare_run(command: str, options: FitOptions, folder: Path) -> Iterator[Run]:
    """Load what a command works with, and hold its folder meanwhile.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options.
        folder: The folder to write into.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    options = _check(options)
    options, saved = _find_checkpoint(options)
    closed_form = _closed_form(options)
    tasks = _load_tasks(options, "dev" if command == "validate" else "test")
    validated = _development_tasks(tasks)
    trainer = _make_trainer(options, folder, _monitored(options, validated))
    cache = EmbeddingCache(options.cache)
    with _claim(command, options, folder, trainer), _logging_ended(options):
        with seeded(options.seed):
            labels = _load_labels(closed_form, tasks)
            source = _load_source(options, tasks)
            encoder = _open_encoder(options, source, trainer.strategy.root_device)
            corpus = {"name": source.name, "digest": source.digest}
            identity = None if encoder is None else encoder.identity
            fitted_on = {"encoder": identity, "corpus": corpus}
            if saved:
                check_fitted_on(saved, fitted_on, options.ckpt_path)
            pairs = None
            if trains_encoder(options.method):
                module, data = _train_on_text(options, encoder, source)
            else:
                dim = source.shape[1] if encoder is None else encoder.dim
                module = _make_flow(options, dim, closed_form)
                rows = source
                if encoder is not None:
                    rows, pairs = _embed(cache, encoder, source, tasks, labels)
                chosen = {} if module is None else options.data
                given = corpus | {"rows": rows, "seed": options.seed}
                data = _make(RowsDataModule, "data", chosen, **given)
        if module is not None:
            module.fitted_on = fitted_on
            trainer.callbacks[:0] = _measure_callbacks(
                module, validated, cache, encoder, closed_form, pairs
            )
        if trainer.is_global_zero:
            trainer.loggers += make_loggers(options.log_to, folder)
        yield Run(
            options=options,
            folder=folder,
            tasks=tasks,
            cache=cache,
            trainer=trainer,
            source=source,
            encoder=encoder,
            module=module,
            map=closed_form,
            data=data,
            pairs=pairs,
        )


def trains_encoder(method: str) -> bool:
    """Whether a method trains an encoder, on examples."""
    return method in TRAINED_METHODS and bool(TRAINED_METHODS[method].examples)


def _module_class(method: str) -> Any:
    """The LightningModule of a method that a Trainer trains."""
    return import_object(TRAINED_METHODS[method].module)


def _check(options: FitOptions) -> FitOptions:
    """The options with the encoder and the loggers in one form; what is cheap is checked."""
    encoder = EncoderOptions.of(options.encoder)
    log_to = as_list(options.log_to or None, "log_to")
    for name in log_to:
        check_choice("log_to", name, _LOG_TO)
    for kind in (RowsDataModule, TextDataModule):
        check_limits(kind, options.data or {})
    return replace(options, encoder=encoder, log_to=log_to)


def _find_checkpoint(options: FitOptions) -> tuple[FitOptions, Mapping[str, Any]]:
    """The options with the path of the checkpoint, and encoder and corpus that it was fitted on.

    The latter are empty without a checkpoint, as of a map, or if ``fit`` did not write it.

    Raises:
        UserError: If it is one of another method.
    """
    if options.method not in TRAINED_METHODS or options.ckpt_path is None:
        return replace(options, ckpt_path=None), {}
    path = find_checkpoint(options.ckpt_path, options.run_dir)
    content = read_checkpoint(path)
    if content["module"] != _module_class(options.method).__name__:
        raise UserError(
            f"{path} is a checkpoint of {content['module']}; expected one of method "
            f"{options.method}",
            argument="ckpt_path",
        )
    return replace(options, ckpt_path=path), content["fitted_on"]


def _closed_form(options: FitOptions) -> Map | None:
    """The map that is fitted in closed form: the method, or the baseline of a flow.

    Raises:
        UserError: If there is neither a method nor a map of that name, or the baseline is of
            another kind.
    """
    if options.method not in TRAINED_METHODS:
        if options.method.isalpha():  # no option, no number
            known = dict.fromkeys([*TRAINED_METHODS, *MAPS])
            check_choice("method", options.method, known)
        return make_map(options.method, "method")
    if trains_encoder(options.method) or options.baseline in (None, "none"):
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


def _development_tasks(tasks: Sequence[Task]) -> list[STS]:
    """The development splits that are measured in each validation."""
    return [
        task.other_split("dev")
        for task in tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]


def _claim(command: str, options: FitOptions, folder: Path, trainer: Any) -> Any:
    """A context that holds the folder, on the first process."""
    if not trainer.is_global_zero:
        return nullcontext()
    resumed = options.ckpt_path if command == "fit" else None
    is_resumable = command == "fit" and options.method in TRAINED_METHODS
    return claim_folder(folder, resumed, is_resumable)


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


def _load_source(options: FitOptions, tasks: Sequence[Task]) -> Any:
    """The vectors, the corpus, or the examples of a method that trains an encoder."""
    source: Corpus | Examples
    if trains_encoder(options.method):
        source = _load_examples(options, tasks)
    elif options.vectors is not None:
        return as_vectors(options.vectors, options.column)
    else:
        source = _load_corpus(options, tasks)
    if options.max_sentences is None:
        return source
    return source.sample(options.max_sentences, options.seed)


def _load_examples(options: FitOptions, tasks: Sequence[Task]) -> Examples:
    """Examples of a method that trains an encoder.

    Raises:
        UserError: If an option is not one of the method's.
    """
    chosen = _example_options(options)
    text_of = import_object(TRAINED_METHODS[options.method].examples)
    text, argument = _make(text_of, "data", chosen), next(iter(chosen), "method")
    function, _ = EXAMPLES.parse(text, argument)
    is_read = "corpus" in signature(function).parameters
    corpus = _load_corpus(options, tasks) if is_read else None
    return make_examples(text, corpus, nli=options.nli, tasks=tasks, argument=argument)


def _example_options(options: FitOptions) -> dict[str, Any]:
    """Options of the data, or of the module, that choose the examples."""
    text_of = import_object(TRAINED_METHODS[options.method].examples)
    data, model = options.data or {}, options.model or {}
    return {
        name: data.get(name, model.get(name)) for name in signature(text_of).parameters
    }


def _open_encoder(options: FitOptions, source: Any, device: Any) -> Encoder | None:
    """The encoder; None for vectors.

    Raises:
        UserError: If it shall be trained and cannot.
    """
    if options.vectors is not None and not trains_encoder(options.method):
        return None
    is_trained = trains_encoder(options.method)
    with warnings.catch_warnings():
        if is_trained and _module_class(options.method).pools:
            # Token weights are about to be learned.
            warnings.filterwarnings("ignore", f".*{NOT_LEARNED}")
        encoder = open_encoder(options.encoder, source.sentences, device)
    if is_trained and not isinstance(encoder, SentenceEncoder):
        raise UserError(
            f"received {encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    return encoder


def _train_on_text(
    options: FitOptions, encoder: Any, examples: Examples
) -> tuple[Any, Any]:
    """The module that trains a copy of the encoder, and its batches."""
    trained = SentenceEncoder(
        **encoder.describe(), token_weights=encoder.token_weights, frozen=False
    )
    given = {"encoder": trained, "seed": options.seed}
    of_batches = {
        name: value
        for name, value in (options.data or {}).items()
        if name not in _example_options(options)
    }
    data = _make(TextDataModule, "data", of_batches, examples=examples, **given)
    module = _make(_module_class(options.method), "model", options.model, **given)
    module.check_examples(examples)
    return module, data


def _make_flow(options: FitOptions, dim: int, closed_form: Map | None) -> Any:
    """The module of a flow, None for a map; options are checked against the vector size."""
    module = None
    if options.method in TRAINED_METHODS:
        given = {"dim": dim, "seed": options.seed}
        module = _make(FlowModule, "model", options.model, **given)
    if closed_form is not None:
        closed_form.check(dim, "method" if module is None else "baseline")
    return module


def _embed(
    cache: EmbeddingCache,
    encoder: Encoder,
    corpus: Corpus,
    tasks: Sequence[Task],
    labels: Subset | None,
) -> tuple[Vectors, LabelledPairs | None]:
    """Vectors of the corpus, and of labelled pairs; those of the tasks are cached, too."""
    sides = [] if labels is None else [labels.sentences1, labels.sentences2]
    texts = [*corpus.sentences, *(x for task in tasks for x in task.sentences)]
    cache.fill([encoder], [*texts, *itertools.chain(*sides)])
    rows = cache.rows(encoder, corpus.sentences)
    if labels is None:
        return rows, None
    first, second = (cache.rows(encoder, side)[:] for side in sides)
    return rows, (first, second, labels.scores)


def _measure_callbacks(
    module: Any,
    tasks: Sequence[STS],
    cache: EmbeddingCache,
    encoder: Any,
    closed_form: Map | None,
    pairs: LabelledPairs | None,
) -> list[Any]:
    """Callbacks that fit the baseline, and that measure in each validation."""

    def embed(sentences: Sequence[str]) -> Any:
        return cache.rows(encoder, sentences)[:]

    if not isinstance(module, FlowModule) or closed_form is None:
        return [TaskEvaluation(tasks, embed)]
    baseline = WhiteningBaseline(closed_form, lambda: pairs)
    return [baseline, TaskEvaluation(tasks, embed, baseline)]


def _monitored(options: FitOptions, validated: Sequence[STS]) -> str | None:
    """The score whose best checkpoint is kept; None for a frozen encoder, which sees no label."""
    if not trains_encoder(options.method) or not validated:
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
