"""What ``fit`` and the functions beside it work with, from their options; a mistake ends here."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytorch_lightning import Trainer

from flowbert.analysis.cls_token import warn_of_cls
from flowbert.data.sts import Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions
from flowbert.encoders.backbone import warn_of_bfloat16
from flowbert.encoders.pooling import make_pooling
from flowbert.errors import UserError, check_choice, check_used
from flowbert.experiments.compare import check_options
from flowbert.fitting.closed_form import ClosedForm
from flowbert.loggers import LOG_TO, wandb_run_ended
from flowbert.maps import MAPS, LabelledPairs, Map, make_map
from flowbert.methods import METHODS, Method
from flowbert.model import Model
from flowbert.registry import imports_refused
from flowbert.tasks import STS, Task, load_tasks
from flowbert.tasks.labels import embed_labels, training_labels
from flowbert.training import (
    AtomicCheckpointIO,
    StepLog,
    TaskEvaluation,
    WhiteningBaseline,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.base import check_limits
from flowbert.training.fit_options import FitOptions
from flowbert.training.run_folder import (
    RunFolder,
    command_folder,
    find_checkpoint,
    new_folder,
)
from flowbert.training.trainer import make_trainer, seeded
from flowbert.training.training_settings import (
    TrainingSettings,
    describe_trainer_option,
    trainer_settings,
)
from flowbert.training.unused import check_given
from flowbert.vectors import EmbeddingCache

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
    "logger": False,
}
"""Options of the Trainer where they are others than Lightning's."""

# When is looked for the best weights decides which they are.
_LOOKS = ("val_check_interval", "check_val_every_n_epoch", "limit_val_batches")


@dataclass(frozen=True)
class Prepared:
    """The parts of a run.

    Attributes:
        options: The options, those of a checkpoint taken over.
        method: The method, with its encoder, data and module.
        tasks: The tasks, loaded.
        baseline: The closed-form map beside a flow.
        labels: Labelled pairs that a supervised map learns from.
        trainer: The Trainer.
        folder: The run folder; other processes than the first learn of it from Lightning.
    """

    options: FitOptions
    method: Method
    tasks: Sequence[Task]
    baseline: WhiteningBaseline | None
    labels: tuple[Subset, ...]
    trainer: Trainer
    folder: Path

    @property
    def is_first(self) -> bool:
        """Whether this process is the only one, or the first of several: the one that writes."""
        return bool(self.trainer.is_global_zero)

    @property
    def is_trial(self) -> bool:
        """Whether the Trainer only tries some batches (``fast_dev_run``)."""
        trainer: Any = self.trainer
        return bool(trainer.fast_dev_run)

    @property
    def seed_of_sample(self) -> int | None:
        """Seed of a map that draws nothing: that of the subset, where one is fitted on."""
        return None if self.options.max_sentences is None else self.options.seed

    def pairs(self) -> LabelledPairs | None:
        """Vectors of the labelled pairs; None without any."""
        return embed_labels(self.method.embed, self.labels) if self.labels else None


def method_class(name: str) -> type[Method]:
    """The class of a method by its name.

    Raises:
        UserError: If there is neither a method nor a map of that name.
    """
    if name in METHODS:
        return METHODS[name]
    if name.isalpha():  # no option, no number
        check_choice("method", name, dict.fromkeys([*METHODS, *MAPS]))
    make_map(name, "method")
    return ClosedForm


@contextmanager
def prepared(command: str, options: FitOptions) -> Iterator[Prepared]:
    """Prepare a run, and hold its folder meanwhile.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    encoder = options.encoder
    if isinstance(encoder, str):
        encoder = EncoderOptions(encoder)
        options = replace(options, encoder=encoder)
    options = replace(options, log_to=as_list(options.log_to or None, "log_to"))
    for name in options.log_to:
        check_choice("log_to", name, LOG_TO)
    if isinstance(encoder.pooling, str):
        make_pooling(encoder.pooling)  # one's own is imported
    check_options(0, options.bootstrap, None)
    if options.bootstrap == 0:
        given = {"bootstrap_seed": options.bootstrap_seed or None}
        check_used(given, (), "a bootstrap of 0")
    kind = method_class(options.method)
    settings = TrainingSettings()
    if options.ckpt_path is not None:
        found = find_checkpoint(options.ckpt_path, [options.run_dir])
        options = replace(options, ckpt_path=found)
        settings = TrainingSettings(
            checkpoint_settings(kind, options), options.ckpt_path
        )
    check_given(options.given(), kind.unused(options))
    options = replace(options, model=kind.model_options(options))
    options = adopt(command, options, settings)
    tasks = load_tasks_of(options, "dev" if command == "validate" else "test")
    cache = EmbeddingCache(options.cache)
    baseline = None
    if options.method == "flow" and options.baseline not in (None, "none"):
        baseline = WhiteningBaseline(closed_form(str(options.baseline)))
    labels = _labels(options, kind, baseline, tasks)
    folder = options.run_dir or new_folder(options.method)
    folder = command_folder(command, folder, options.ckpt_path)
    method = kind(
        options=options,
        tasks=tasks,
        settings=settings,
        cache=cache,
        load_model=Model.load,
    )
    trainer, decided = _make_trainer(method, baseline, folder)
    decided |= trainer_settings(trainer, options.trainer or {})
    if command == "fit":
        settings.add(**decided)
    method.device = trainer.strategy.root_device
    run = Prepared(options, method, tasks, baseline, labels, trainer, folder)
    if baseline is not None:
        baseline.pairs = run.pairs
    resumed = options.ckpt_path if command == "fit" else None
    resumable = command == "fit" and kind.module_class is not None
    claimed = RunFolder(folder, resumed, resumable) if run.is_first else nullcontext()
    with claimed, wandb_run_ended():
        # What is given is imported by now; a checkpoint imports nothing.
        with seeded(options.seed), imports_refused():
            _open(run)
        yield run


def _open(run: Prepared) -> None:
    """Load what is fitted on, check what depends on the encoder, then encode."""
    method = run.method
    if "bf16" in str(run.trainer.precision) and method.device.type == "cpu":
        warn_of_bfloat16()
    method.open()
    if run.baseline is not None:
        run.baseline.map.check(method.dim, "baseline")
    texts = [text for task in run.tasks for text in task.sentences]
    for subset in run.labels:
        texts += [*subset.sentences1, *subset.sentences2]
    method.encode(texts)
    is_new = run.options.ckpt_path is None and run.is_first
    if is_new and method.is_frozen and method.encoder is not None:
        seed = run.options.seed
        warn_of_cls(method.encoder, method.sentences, method.cache, seed)
    if method.module is not None:
        method.module.run_settings = method.settings.values
        method.module.trainer_options = dict(run.options.trainer or {})


def checkpoint_settings(kind: type[Method], options: FitOptions) -> dict[str, Any]:
    """What decided the training of the checkpoint.

    Raises:
        UserError: If it is one of another method, or does not say how it was trained.
    """
    path: Any = options.ckpt_path
    content = read_checkpoint(path)
    module, data = kind.module_class, kind.data_class
    if module is None or data is None or content["module"] != module.__name__:
        raise UserError(
            f"{path} is of {content['module']}; expected one of method {options.method}",
            argument="ckpt_path",
        )
    settings: dict[str, Any] = {}
    for part in (content.get(data.__qualname__), content):
        if isinstance(part, Mapping) and isinstance(part.get("settings"), Mapping):
            settings |= part["settings"]
    if not {"encoder", "corpus"} <= settings.keys():
        raise UserError(
            f"{path} does not say which encoder and corpus it was fitted on; expected a "
            "checkpoint that fit of this version wrote",
            argument="ckpt_path",
        )
    return settings


def adopt(command: str, options: FitOptions, settings: TrainingSettings) -> FitOptions:
    """The options with those of the checkpoint where none is given.

    Raises:
        UserError: If the checkpoint has another value of one.
    """
    model = dict(options.model or {})
    # A fit draws with its seed, whether it is given or not.
    if options.seed or command == "fit" or options.ckpt_path is None:
        check_limits(seed=options.seed)
        model["seed"] = options.seed
    model = settings.adopt("model", model)
    data = settings.adopt("data", options.data)
    return replace(options, model=model, data=data, seed=model["seed"])


def load_tasks_of(options: FitOptions, split: str) -> list[Task]:
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


def closed_form(text: str) -> Map:
    """The map beside the flow.

    Raises:
        UserError: If it is none that is fitted in closed form.
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
    kind: type[Method],
    baseline: WhiteningBaseline | None,
    tasks: Sequence[Task],
) -> tuple[Subset, ...]:
    """Labelled pairs of the first task, where a map learns from them."""
    argument, text = "baseline", str(options.baseline)
    learner = None if baseline is None else baseline.map
    if kind is ClosedForm:
        argument, text, learner = "method", options.method, make_map(options.method)
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


def _make_trainer(
    method: Method, baseline: WhiteningBaseline | None, folder: Path
) -> tuple[Any, dict[str, Any]]:
    """A Trainer that writes into the run folder, and what its callbacks decide of a training."""
    options = dict(method.options.trainer or {})
    validated = [
        STS(task.data, "dev")
        for task in method.tasks
        if isinstance(task, STS) and "dev" in task.data.splits
    ]
    decided: dict[str, Any] = {"baseline": None if baseline is None else baseline.name}
    monitor = None
    # A frozen encoder's method sees no label.
    if not method.is_frozen and validated:
        # An encoder that is trained through a map is used through it.
        is_mapped = method.trained_through is not None
        name = f"{method.name}+head" if is_mapped else method.name
        monitor = f"{name}/{validated[0].name}/dev/spearman_all"
        decided["best"] = {"score": monitor, "task": validated[0].digest}
        decided |= {
            f"trainer.{name}": describe_trainer_option(name, options.get(name))
            for name in _LOOKS
        }
    callbacks = [
        *([] if baseline is None else [baseline]),
        TaskEvaluation(validated, method.embed, baseline),
        StepLog(),
        *checkpoint_callbacks(
            folder / "checkpoints", monitor, **(method.options.checkpoint or {})
        ),
    ]
    trainer = make_trainer(
        {**TRAINER_DEFAULTS, **options},
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()],
        default_root_dir=str(folder),
    )
    return trainer, decided
