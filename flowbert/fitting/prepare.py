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
from torch import nn

from flowbert.analysis.cls_token import warn_of_cls
from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.sts import Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.backbone import warn_of_bfloat16
from flowbert.encoders.encoder import NOT_LEARNED
from flowbert.errors import UserError, check_choice, check_used, first_line
from flowbert.experiments.compare import check_options
from flowbert.fitting.run_options import FitOptions
from flowbert.loggers import LOG_TO, wandb_run_ended
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.methods import METHODS, FlowModule, TextDataModule, make_examples
from flowbert.methods.distillation import compared_rows, teach
from flowbert.methods.examples import EXAMPLES, EXAMPLES_OF, Examples
from flowbert.methods.heads import HEADS
from flowbert.model import Model
from flowbert.tasks import STS, Task, load_tasks
from flowbert.tasks.labels import embed_labels, training_labels
from flowbert.training import (
    AtomicCheckpointIO,
    RowsDataModule,
    StepLog,
    TaskEvaluation,
    WhiteningBaseline,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.base import check_limits
from flowbert.training.checkpoints import check_fitted_on
from flowbert.training.run_folder import claimed, find_checkpoint
from flowbert.training.trainer import make_trainer, seeded
from flowbert.vectors import EmbeddingCache, as_vectors

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
    "logger": False,
}
"""Options of the Trainer where they are others than Lightning's."""

# A map in closed form has its encoder on the device, too.
_WITHOUT_TRAINING = ("accelerator", "devices", "enable_progress_bar")
_OF_SENTENCES = (
    *("encoder", "corpus", "nli", "max_sentences", "tasks", "senteval", "columns"),
    *("score_range", "positive_above", "uniformity_limit", "bootstrap"),
    *("bootstrap_seed", "cache"),
)


@dataclass
class Run:
    """The parts of a run.

    Attributes:
        options: The options.
        folder: The folder that it writes into; other processes than the first learn of it from
            Lightning.
        tasks: The tasks, loaded.
        cache: The embedding cache.
        map: The map, if one is fitted in closed form.
        baseline: The closed-form map that a flow is compared with.
        labels: Labelled pairs that a supervised map learns from.
        trainer: The Trainer.
        encoder: The encoder before the training; None for vectors.
        sentences: What is fitted on, in the order of the predictions.
        corpus: Its name.
        digest: Its digest.
        rows: Vectors of the sentences, ``(N, D)``; None where the encoder is trained.
        module: The LightningModule, if a Trainer is needed.
        data: Its data module.
    """

    options: FitOptions
    folder: Path
    tasks: Sequence[Task]
    cache: EmbeddingCache
    map: Map | None
    baseline: WhiteningBaseline | None
    labels: tuple[Subset, ...]
    trainer: Any = None
    encoder: Any = None
    sentences: Sequence[str] = ()
    corpus: str = ""
    digest: str = ""
    rows: Any = None
    module: Any = None
    data: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this process is the only one, or the first of several: the one that writes."""
        return bool(self.trainer.is_global_zero)

    @property
    def is_trial(self) -> bool:
        """Whether the Trainer only tries some batches (``fast_dev_run``)."""
        return bool(self.trainer.fast_dev_run)

    @property
    def device(self) -> Any:
        """Device of the encoder."""
        return self.trainer.strategy.root_device

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the predictions, ``(N, D)``."""
        if self.rows is not None:
            return len(self.rows), int(self.rows.shape[1])
        return len(self.sentences), self.encoder.dim

    @property
    def seed_of_sample(self) -> int | None:
        """Seed of a map that draws nothing: that of the subset, where one is fitted on."""
        return None if self.options.max_sentences is None else self.options.seed

    def embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training, ``(N, D)``."""
        return self.cache.rows(self.encoder, sentences)[:]

    def pairs(self) -> LabelledPairs | None:
        """Vectors of the labelled pairs; None without any."""
        return embed_labels(self.embed, self.labels) if self.labels else None


@contextmanager
def prepared(command: str, options: FitOptions, folder: Path) -> Iterator[Run]:
    """Prepare a run, and hold its folder meanwhile.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options.
        folder: The folder to write into.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    options = _checked(options)
    kind = METHODS.get(options.method)
    map = None if kind is not None else _closed_form_method(options)
    saved: Mapping[str, Any] | None = None
    if options.ckpt_path is not None:
        path = find_checkpoint(options.ckpt_path, options.run_dir)
        options = replace(options, ckpt_path=path)
        saved = _read_saved(path, kind, options.method)
    tasks = _load_tasks(options, "dev" if command == "validate" else "test")
    baseline = None
    if kind is FlowModule and options.baseline not in (None, "none"):
        baseline = WhiteningBaseline(_closed_form_baseline(str(options.baseline)))
    labels = _labels(options, map, baseline, tasks)
    cache = EmbeddingCache(options.cache)
    run = Run(options, folder, tasks, cache, map, baseline, labels)
    if baseline is not None:
        baseline.pairs = run.pairs
    run.trainer = _make_trainer(run)
    resumed = options.ckpt_path if command == "fit" else None
    held: Any = nullcontext()
    if run.is_first:
        held = claimed(folder, resumed, command == "fit" and kind is not None)
    if "bf16" in str(run.trainer.precision) and run.device.type == "cpu":
        warn_of_bfloat16()
    with held, wandb_run_ended():
        with seeded(options.seed):
            load = _load_rows if kind in (None, FlowModule) else _load_examples
            load(run, saved)
        yield run


def _checked(options: FitOptions) -> FitOptions:
    """The options with the encoder and the loggers in one form; what is cheap is checked."""
    encoder = options.encoder
    if isinstance(encoder, str):
        encoder = EncoderOptions(encoder)
    log_to = as_list(options.log_to or None, "log_to")
    for name in log_to:
        check_choice("log_to", name, LOG_TO)
    check_options(0, options.bootstrap, None)
    if options.bootstrap == 0:
        options.check_unused(["bootstrap_seed"], "a bootstrap of 0")
    check_limits(seed=options.seed, **(options.data or {}))
    return replace(options, encoder=encoder, log_to=log_to)


def _closed_form_method(options: FitOptions) -> Map:
    """The map that is fitted in closed form.

    Raises:
        UserError: If there is neither a method nor a map of that name, or an option has no effect
            on one.
    """
    name = options.method
    if name.isalpha():  # no option, no number
        check_choice("method", name, dict.fromkeys([*METHODS, *MAPS]))
    made = make_map(name, "method")
    where = f"method {name}"
    options.check_unused(["baseline", "model", "data", "checkpoint"], where)
    trainer = {f"trainer.{name}": x for name, x in (options.trainer or {}).items()}
    used = [f"trainer.{name}" for name in _WITHOUT_TRAINING]
    check_used(trainer, used, where)
    if options.ckpt_path is not None:
        options.check_unused(["ckpt_path"], where)
    return made


def _read_saved(path: Path, kind: Any, method: str) -> Mapping[str, Any]:
    """What a checkpoint was fitted on.

    Raises:
        UserError: If it is one of another method, or ``fit`` did not write it.
    """
    content = read_checkpoint(path)
    if content["module"] != kind.__name__:
        raise UserError(
            f"{path} is of {content['module']}; expected one of method {method}",
            argument="ckpt_path",
        )
    saved: Mapping[str, Any] | None = content.get("fitted_on")
    if not saved:
        raise UserError(
            f"{path} does not say which encoder and corpus it was fitted on; expected a "
            "checkpoint that fit of this version wrote",
            argument="ckpt_path",
        )
    return saved


def _load_tasks(options: FitOptions, split: str) -> list[Task]:
    """The tasks that are measured; none with vectors, nor on other text without tasks."""
    if options.vectors is not None:
        return []
    if options.tasks is None and not options.fits_on_sample:
        return []  # scores on the generated SAMPLE would say nothing about that text
    named = "SAMPLE" if options.tasks is None else options.tasks
    return load_tasks(
        as_list(named, "tasks", paths=True),
        options.senteval,
        split=split,
        columns=options.columns,
        score_range=options.score_range,
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


def _labels(
    options: FitOptions,
    map: Map | None,
    baseline: WhiteningBaseline | None,
    tasks: Sequence[Task],
) -> tuple[Subset, ...]:
    """Labelled pairs of the first task, where a map learns from them."""
    argument, text, learner = "method", options.method, map
    if baseline is not None:
        argument, text, learner = "baseline", str(options.baseline), baseline.map
    if learner is None or not learner.supervised:
        return ()
    if not tasks:
        expected = "tasks" if options.vectors is None else "another map with vectors"
        raise UserError(
            f"received {text!r}, which learns from the labelled pairs of a task; "
            f"expected {expected}",
            argument=argument,
        )
    instead = "another task; compare --drop_overlap true leaves them out"
    return training_labels(tasks[0], tasks, expected=instead, argument="tasks")


def _make_trainer(run: Run) -> Any:
    """A Trainer that writes into the run folder."""
    options = run.options
    validated = [
        STS(task.data, "dev")
        for task in run.tasks
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
        *([] if run.baseline is None else [run.baseline]),
        TaskEvaluation(validated, run.embed, run.baseline),
        StepLog(),
        *checkpoint_callbacks(
            run.folder / "checkpoints", monitor, **(options.checkpoint or {})
        ),
    ]
    return make_trainer(
        {**TRAINER_DEFAULTS, **(options.trainer or {})},
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()],
        default_root_dir=str(run.folder),
    )


def _load_rows(run: Run, saved: Mapping[str, Any] | None) -> None:
    """Load sentences or vectors for a frozen encoder, and make the module before encoding."""
    options = run.options
    if options.vectors is None:
        corpus = _load_corpus(options, run.tasks)
        if options.max_sentences is not None:
            corpus = corpus.sample(options.max_sentences, options.seed)
        run.sentences = corpus.sentences
        run.encoder = open_encoder(options.encoder, run.sentences, run.device)
        dim = run.encoder.dim
        _set_fitted_on(run, corpus, saved)
    else:
        where = "vectors, which are neither encoded nor measured"
        options.check_unused(_OF_SENTENCES, where)
        run.rows = as_vectors(options.vectors, options.column)
        dim = int(run.rows.shape[1])
        _set_fitted_on(run, run.rows, saved)
    if run.map is not None:
        run.map.check(dim, "method")
    else:
        given = {"dim": dim, "seed": options.seed}
        run.module = _make(FlowModule, "model", options.model, **given)
    if run.baseline is not None:
        run.baseline.map.check(dim, "baseline")
    if run.encoder is not None:
        texts = [text for task in run.tasks for text in task.sentences]
        for subset in run.labels:
            texts += [*subset.sentences1, *subset.sentences2]
        run.cache.fill([run.encoder], [*run.sentences, *texts])
        run.rows = run.cache.rows(run.encoder, run.sentences)
        if saved is None and run.is_first:
            warn_of_cls(run.encoder, run.sentences, run.cache, options.seed)
    if run.module is not None:
        named = {"name": run.corpus, "digest": run.digest, "seed": options.seed}
        run.data = _make(RowsDataModule, "data", options.data, rows=run.rows, **named)
        run.module.fitted_on = _fitted_on(run)


def _load_examples(run: Run, saved: Mapping[str, Any] | None) -> None:
    """Make the examples, and load the encoder to train next to the one that it starts from."""
    options = run.options
    kind: Any = METHODS[options.method]
    options.check_unused(["baseline", "vectors"], f"method {options.method}")
    examples, data = _make_examples(run)
    if options.max_sentences is not None:
        examples = examples.sample(options.max_sentences, options.seed)
    run.sentences = examples.columns[0]
    with warnings.catch_warnings():
        if kind.pools:  # token weights are about to be learned
            warnings.filterwarnings("ignore", f".*{NOT_LEARNED}")
        run.encoder = open_encoder(options.encoder, run.sentences, run.device)
    if not isinstance(run.encoder, SentenceEncoder):
        raise UserError(
            f"received {run.encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    _set_fitted_on(run, examples, saved)
    trained = SentenceEncoder(
        **run.encoder.describe(), token_weights=run.encoder.token_weights, frozen=False
    )
    given = {"encoder": trained, "seed": options.seed}
    run.data = _make(TextDataModule, "data", data, **given, examples=examples)
    run.module = _make(kind, "model", options.model, **given)
    run.module.fitted_on = _fitted_on(run)
    if options.method == "distillation":
        _teach(run, str((options.data or {})["teacher"]))
    run.module.check_examples(run.data.examples)


def _make_examples(run: Run) -> tuple[Examples, dict[str, Any]]:
    """The examples of a method, and the options of its data that they do not use.

    Raises:
        UserError: If an option is not one of the method's, or a source has no effect.
    """
    options = run.options
    data = dict(options.data or {})
    text_of = EXAMPLES_OF[options.method]
    chosen = {}
    for name in signature(text_of).parameters:
        of_module = (options.model or {}).get(name)
        chosen[name] = data.pop(name, of_module)
    text = _make(text_of, "data", chosen)
    argument = next(iter(chosen), "method")
    corpus: Any = options.corpus
    nli = options.nli
    function, _ = EXAMPLES.parse(text, argument)
    if "corpus" in signature(function).parameters:
        corpus, nli = _load_corpus(options, run.tasks), None
    else:
        check_used({"column": options.column}, (), f"{argument} {text}")
        corpus = None if corpus == "nli" else corpus  # another word for the same
    made = make_examples(text, corpus, nli=nli, tasks=run.tasks, argument=argument)
    return made, data


def _teach(run: Run, name: str) -> None:
    """Give the examples the vectors of a teacher, from a sample of the student's."""
    try:
        teacher = Model.load(name)
    except UserError as error:
        raise UserError(str(error), argument="teacher") from error
    if isinstance(teacher.encoder, nn.Module):
        teacher.encoder.to(run.device)
    rows = run.cache.rows(teacher.encoder, run.sentences)
    vectors = np.concatenate([teacher.transform(block) for block in rows.blocks()])
    start = run.embed(run.sentences[compared_rows(len(rows))])
    run.data.examples = teach(run.data.examples, vectors, start)


def _load_corpus(options: FitOptions, tasks: Sequence[Task]) -> Corpus:
    """The corpus of the options; ``target`` and ``train_only`` are those of the first task."""
    if tasks and options.corpus_name in OWN_NAMES:
        given = {"nli": options.nli, "column": options.column}
        check_used(given, (), f"the corpus {options.corpus_name}")
        # In a comparison, which has each task's own, `target` is another corpus.
        corpus = tasks[0].corpus(options.corpus_name)
        return replace(
            corpus, name=OWN_NAMES[options.corpus_name].format(tasks[0].name)
        )
    source = "target" if options.corpus is None else options.corpus
    return load_corpus(source, nli=options.nli or "hub", column=options.column)


def _set_fitted_on(run: Run, fitted_on: Any, saved: Mapping[str, Any] | None) -> None:
    """Keep name and digest of what is fitted on, and compare them with a checkpoint's.

    Raises:
        UserError: If the checkpoint was fitted with another encoder, or on other sentences.
    """
    run.corpus, run.digest = fitted_on.name, fitted_on.digest
    if saved is not None:
        check_fitted_on(saved, _fitted_on(run), run.options.ckpt_path)


def _fitted_on(run: Run) -> dict[str, Any]:
    """Identity of the encoder and digest of the corpus, as a checkpoint has them."""
    identity = None if run.encoder is None else run.encoder.identity
    return {"encoder": identity, "corpus": {"name": run.corpus, "digest": run.digest}}


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
