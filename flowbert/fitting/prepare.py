"""The parts of a run, from its options; a mistake in them is told before anything is encoded."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowbert.data.scored_pairs import SAMPLE_TASK, Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions
from flowbert.encoders.backbone import warn_of_bfloat16
from flowbert.errors import UserError, check_choice
from flowbert.fitting.parts import Run, load_examples, load_rows
from flowbert.fitting.run_options import FitOptions
from flowbert.loggers import LOG_TO, wandb_run_ended
from flowbert.maps import MAPS, Map, make_map
from flowbert.methods import METHODS, FlowModule, TextDataModule
from flowbert.methods.heads import HEADS
from flowbert.numbers import check_limits
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
from flowbert.training.checkpoints import claim_folder, find_checkpoint
from flowbert.training.trainer import make_trainer, seeded
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
    kind = METHODS.get(options.method)
    map = None if kind is not None else _closed_form_method(options)
    saved: Mapping[str, Any] | None = None
    if kind is None:  # what is fitted in closed form has no checkpoint
        options = replace(options, ckpt_path=None)
    elif options.ckpt_path is not None:
        path = find_checkpoint(options.ckpt_path, options.run_dir)
        options = replace(options, ckpt_path=path)
        saved = _read_saved(path, kind, options.method)
    tasks = _load_tasks(options, "dev" if command == "validate" else "test")
    baseline = None
    if kind is FlowModule and options.baseline not in (None, "none"):
        baseline = WhiteningBaseline(_closed_form_baseline(str(options.baseline)))
    labels = _load_labels(options, map, baseline, tasks)
    cache = EmbeddingCache(options.cache)
    run = Run(options, folder, tasks, cache, map, baseline, labels)
    if baseline is not None:
        baseline.pairs = run.pairs
    run.trainer = _make_trainer(run)
    resumed = options.ckpt_path if command == "fit" else None
    held: Any = nullcontext()
    if run.is_first:
        held = claim_folder(folder, resumed, command == "fit" and kind is not None)
    if "bf16" in str(run.trainer.precision) and run.device.type == "cpu":
        warn_of_bfloat16()
    with held, wandb_run_ended():
        with seeded(options.seed):
            load = load_rows if kind in (None, FlowModule) else load_examples
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
    check_limits(FitOptions, vars(options))
    for kind in (RowsDataModule, TextDataModule):
        check_limits(kind, options.data or {})
    return replace(options, encoder=encoder, log_to=log_to)


def _closed_form_method(options: FitOptions) -> Map:
    """The map that is fitted in closed form.

    Raises:
        UserError: If there is neither a method nor a map of that name.
    """
    name = options.method
    if name.isalpha():  # no option, no number
        check_choice("method", name, dict.fromkeys([*METHODS, *MAPS]))
    return make_map(name, "method")


def _read_saved(path: Path, kind: Any, method: str) -> Mapping[str, Any]:
    """Encoder and corpus that a checkpoint was fitted on.

    Raises:
        UserError: If it is one of another method, or ``fit`` did not write it.
    """
    content = read_checkpoint(path)
    if content["module"] != kind.__name__:
        raise UserError(
            f"{path} is a checkpoint of {content['module']}; expected one of method {method}",
            argument="ckpt_path",
        )
    saved: Mapping[str, Any] | None = content.get("fitted_on")
    if not saved:
        raise UserError(
            f"{path} does not name the encoder and corpus of its fit; expected a checkpoint "
            "written by fit of this version",
            argument="ckpt_path",
        )
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


def _load_labels(
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
