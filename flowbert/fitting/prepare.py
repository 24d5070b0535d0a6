"""The parts of a run, from its options; a mistake in them is told before anything is encoded."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.scored_pairs import SAMPLE_TASK, Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import Encoder, EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.encoder import NOT_LEARNED
from flowbert.errors import UserError, check_choice, first_line
from flowbert.fitting.run_options import FitOptions
from flowbert.loggers import LOG_TO, wandb_run_ended
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.methods import METHODS, FlowModule, TextDataModule, make_examples
from flowbert.methods.examples import EXAMPLES, Examples
from flowbert.methods.heads import HEADS
from flowbert.numbers import check_limits
from flowbert.options import TRAINED_METHODS, TRAINER_DEFAULTS, renamed
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
from flowbert.vectors import EmbeddingCache, Vectors, as_vectors


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
        encoder: The encoder before the training; None for vectors.
        fitted_on: The corpus, examples or vectors.
        fitted: The LightningModule, or the map that is fitted in closed form.
        data: The data module.
        baseline: The closed-form map that a flow is compared with.
        pairs: Makes the labelled pairs that a supervised map learns from; None without any.
    """

    options: FitOptions
    folder: Path
    tasks: Sequence[Task]
    cache: EmbeddingCache
    trainer: Any
    encoder: Any
    fitted_on: Any
    fitted: Any
    data: Any
    baseline: WhiteningBaseline | None
    pairs: Callable[[], LabelledPairs | None]

    @property
    def device(self) -> Any:
        """Device of the encoder."""
        return self.trainer.strategy.root_device


@contextmanager
def prepare_run(command: str, options: FitOptions, folder: Path) -> Iterator[Run]:
    """Prepare a run, and hold its folder meanwhile.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options.
        folder: The folder to write into.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    options = _checked(options)
    kind: Any = METHODS.get(options.method)
    saved: Mapping[str, Any] = {}
    if kind is None:  # what is fitted in closed form has no checkpoint
        options = replace(options, ckpt_path=None)
    elif options.ckpt_path is not None:
        path = find_checkpoint(options.ckpt_path, options.run_dir)
        options = replace(options, ckpt_path=path)
        saved = _read_saved(path, kind, options.method)
    map = None if kind is not None else _closed_form_method(options.method)
    baseline = None
    if kind is FlowModule and options.baseline not in (None, "none"):
        baseline = WhiteningBaseline(_closed_form_baseline(str(options.baseline)))
    tasks = _load_tasks(options, "dev" if command == "validate" else "test")
    labels = _load_labels(map if baseline is None else baseline.map, tasks)
    cache = EmbeddingCache(options.cache)
    encoder: Any = None

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training, ``(N, D)``."""
        return cache.rows(encoder, sentences)[:]

    def pairs() -> LabelledPairs | None:
        if labels is None:
            return None
        return embed(labels.sentences1), embed(labels.sentences2), labels.scores

    if baseline is not None:
        baseline.pairs = pairs
    trainer = _make_trainer(options, folder, tasks, embed, baseline)
    held: Any = nullcontext()
    if trainer.is_global_zero:
        resumed = options.ckpt_path if command == "fit" else None
        held = claim_folder(folder, resumed, command == "fit" and kind is not None)
    device = trainer.strategy.root_device
    given: dict[str, Any] = {"seed": options.seed}
    fitted_on: Any
    with held, wandb_run_ended():
        with seeded(options.seed):
            is_frozen = kind in (None, FlowModule)
            if not is_frozen:
                fitted_on, data_options = _make_examples(options, tasks)
            elif options.vectors is None:
                fitted_on = _load_corpus(options, tasks)
            else:
                fitted_on = as_vectors(options.vectors, options.column)
            if not isinstance(fitted_on, Vectors):
                if options.max_sentences is not None:
                    fitted_on = fitted_on.sample(options.max_sentences, options.seed)
                encoder = _open_encoder(options, kind, fitted_on.sentences, device)
            named = {"name": fitted_on.name, "digest": fitted_on.digest}
            identity = None if encoder is None else encoder.identity
            known = {"encoder": identity, "corpus": named}
            if saved:
                check_fitted_on(saved, known, options.ckpt_path)
            fitted: Any = map
            if is_frozen:
                rows: Any = fitted_on
                dim = rows.shape[1] if encoder is None else encoder.dim
                if map is None:
                    fitted = _make(kind, "model", options.model, dim=dim, **given)
                else:
                    map.check(dim, "method")
                if baseline is not None:
                    baseline.map.check(dim, "baseline")
                if encoder is not None:
                    texts = [text for task in tasks for text in task.sentences]
                    if labels is not None:
                        texts += [*labels.sentences1, *labels.sentences2]
                    cache.fill([encoder], [*fitted_on.sentences, *texts])
                    rows = cache.rows(encoder, fitted_on.sentences)
                chosen = options.data if map is None else {}
                given |= named | {"rows": rows}
                data = _make(RowsDataModule, "data", chosen, **given)
            else:
                given["encoder"] = SentenceEncoder(
                    **encoder.describe(),
                    token_weights=encoder.token_weights,
                    frozen=False,
                )
                data = _make(
                    TextDataModule, "data", data_options, examples=fitted_on, **given
                )
                fitted = _make(kind, "model", options.model, **given)
                fitted.check_examples(fitted_on)
            if kind is not None:
                fitted.fitted_on = known
        yield Run(
            options,
            folder,
            tasks,
            cache,
            trainer,
            encoder,
            fitted_on,
            fitted,
            data,
            baseline,
            pairs,
        )


def _checked(options: FitOptions) -> FitOptions:
    """The options with the encoder and the loggers in one form; what is cheap is checked."""
    encoder = options.encoder
    if isinstance(encoder, str):
        encoder = EncoderOptions(encoder)
    log_to = as_list(options.log_to or None, "log_to")
    for name in log_to:
        check_choice("log_to", name, LOG_TO)
    check_limits(FitOptions, vars(options))
    for kind in (RowsDataModule, TextDataModule):
        check_limits(kind, options.data or {})
    return replace(options, encoder=encoder, log_to=log_to)


def _closed_form_method(name: str) -> Map:
    """The map that is fitted in closed form.

    Raises:
        UserError: If there is neither a method nor a map of that name.
    """
    if name.isalpha():  # no option, no number
        check_choice("method", name, dict.fromkeys([*METHODS, *MAPS]))
    return make_map(name, "method")


def _read_saved(path: Path, kind: Any, method: str) -> Mapping[str, Any]:
    """Encoder and corpus that a checkpoint was fitted on; empty if ``fit`` did not write it.

    Raises:
        UserError: If it is one of another method.
    """
    content = read_checkpoint(path)
    if content["module"] != kind.__name__:
        raise UserError(
            f"{path} is a checkpoint of {content['module']}; expected one of method {method}",
            argument="ckpt_path",
        )
    saved: Mapping[str, Any] = content["fitted_on"]
    return saved


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


def _closed_form_baseline(text: str) -> Map:
    """The map that a flow is compared with.

    Raises:
        UserError: If it is not one that is fitted in closed form.
    """
    made = make_map(text, "baseline")
    if any(step.seeded or step.name == "raw" for step in made.parts):
        raise UserError(
            argument="baseline",
            received=text,
            expected="a map that is fitted in closed form, or none (raw is compared anyway)",
        )
    return made


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


def _make_trainer(
    options: FitOptions,
    folder: Path,
    tasks: Sequence[Task],
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
    baseline: WhiteningBaseline | None,
) -> Any:
    """A Trainer that writes into the run folder."""
    validated = [
        STS(task.data, "dev")
        for task in tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]
    monitor = None
    # A frozen encoder's method sees no label.
    if METHODS.get(options.method) not in (None, FlowModule) and validated:
        # An encoder that is trained through a map is used through it.
        head = (options.model or {}).get("head")
        name = options.method if head in (None, *HEADS) else f"{options.method}+head"
        monitor = f"{name}/{validated[0].name}/dev/spearman_all"
    callbacks = [
        *([] if baseline is None else [baseline]),
        TaskEvaluation(validated, embed, baseline),
        StepLog(),
        *checkpoint_callbacks(
            folder / "checkpoints", monitor, **(options.checkpoint or {})
        ),
    ]
    return make_trainer(
        {**TRAINER_DEFAULTS, **(options.trainer or {})},
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()],
        default_root_dir=str(folder),
    )


def _make_examples(
    options: FitOptions, tasks: Sequence[Task]
) -> tuple[Examples, dict[str, Any]]:
    """The examples of a method, and the options of its data that they do not use.

    Raises:
        UserError: If an option is not one of the method's, or a source has no effect.
    """
    data = dict(options.data or {})
    text_of = import_object(TRAINED_METHODS[options.method].examples)
    chosen = {}
    for name in signature(text_of).parameters:
        of_module = (options.model or {}).get(name)
        chosen[name] = data.pop(name, of_module)
    text, argument = _make(text_of, "data", chosen), next(iter(chosen), "method")
    function, _ = EXAMPLES.parse(text, argument)
    is_read = "corpus" in signature(function).parameters
    corpus = _load_corpus(options, tasks) if is_read else None
    made = make_examples(text, corpus, nli=options.nli, tasks=tasks, argument=argument)
    return made, data


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


def _open_encoder(
    options: FitOptions, kind: Any, sentences: Sequence[str], device: Any
) -> Encoder:
    """The encoder, of which a method may need the network.

    Raises:
        UserError: If it cannot be opened or trained.
    """
    with warnings.catch_warnings():
        if getattr(kind, "pools", False):  # token weights are about to be learned
            warnings.filterwarnings("ignore", f".*{NOT_LEARNED}")
        encoder = open_encoder(options.encoder, sentences, device)
    if kind not in (None, FlowModule) and not isinstance(encoder, SentenceEncoder):
        raise UserError(
            f"received {encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    return encoder


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
    known = {name: x for name, x in renamed(options or {}).items() if x is not None}
    try:
        return function(**given, **known)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(first_line(error), argument=group) from error
