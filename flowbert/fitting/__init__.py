"""The functions that train a method, and those that measure or use what was trained."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning_fabric.utilities.rank_zero import rank_zero_only

from flowbert.data.text_files import user_path
from flowbert.errors import record_warnings
from flowbert.experiments import Results
from flowbert.experiments.compare import check_options
from flowbert.fitting.comparison import list_methods, measure, save, write_page
from flowbert.fitting.prepare import Run, prepare_run
from flowbert.fitting.run_options import config_text, read_run
from flowbert.io import write_atomically
from flowbert.options import FitOptions, PredictOptions, RunOptions, takes
from flowbert.precision import usual_modes
from flowbert.registry import imports_refused
from flowbert.threads import threads_for
from flowbert.training import VectorWriter
from flowbert.training.checkpoints import BestCheckpoint
from flowbert.training.run_folder import RUN_CONFIG, claim_folder, new_folder
from flowbert.training.trainer import quiet_lightning, seeded

__all__ = [
    "fit",
    "predict",
    "test",
    "validate",
]


@takes(FitOptions)
@usual_modes()
def fit(options: FitOptions) -> Results:
    """Train a method, compare it with its baselines on the test split, save everything.

    Args:
        options: Fields of :class:`flowbert.options.FitOptions`, as arguments.

    A fit that resumes, by ``ckpt_path``, has the options of the first; length, devices and logging
    may differ.

    Returns:
        The results of :func:`flowbert.compare`; empty on all processes but the first.

    Raises:
        UserError: If an argument is wrong; nothing has been written then.
    """
    folder = user_path(options.run_dir or new_folder(options.method))
    if options.seeds is not None:
        return _fit_seeds(options, folder)
    with record_warnings() as warned, prepare_run("fit", options, folder) as run:
        is_first = run.trainer.is_global_zero
        if is_first:
            _write_config(options, folder)
        if run.module is not None:
            _train(run)
        if not is_first or run.trainer.fast_dev_run:
            return Results([], {})
        methods = list_methods(run)
        save(run, methods)
        return measure(run, methods, warned)


def _write_config(options: FitOptions, folder: Path) -> None:
    with write_atomically(folder / RUN_CONFIG) as temporary:
        text = config_text(options) if options.config is None else options.config
        temporary.write_text(text, encoding="utf-8")


def _fit_seeds(options: FitOptions, folder: Path) -> Results:
    """Fit once per seed, and compare; a resumed fit reads what is finished."""
    seeds = check_options(options.seeds or (), None)
    is_first = rank_zero_only.rank == 0  # type: ignore[attr-defined]
    resumed = options.ckpt_path and folder / "last.ckpt"
    with claim_folder(folder, resumed) if is_first else nullcontext():
        if is_first:
            _write_config(options, folder)
        runs = [_fit_seed(options, folder / f"seed-{seed}", seed) for seed in seeds]
        records = {record.key: record for run in runs for record in run.records}
        if not records:
            return runs[-1]
        results = Results.of(list(records.values()), runs[-1].about)
        warned = [text for run in runs for text in run.about["warnings"]]
        results.about["warnings"] = list(dict.fromkeys(warned))
        results.add_intervals(options.bootstrap, options.bootstrap_seed)
        results.save(folder / "results.json")
        write_page(folder)
    return results


def _fit_seed(options: FitOptions, folder: Path, seed: int) -> Results:
    finished, last = folder / "results.json", folder / "checkpoints" / "last.ckpt"
    if options.ckpt_path and finished.is_file():
        return Results.load(finished)
    ckpt_path = last if options.ckpt_path and last.is_file() else None
    one = replace(
        options, seed=seed, seeds=None, run_dir=folder, ckpt_path=ckpt_path, config=None
    )
    return fit(**vars(one))


@takes(RunOptions)
@usual_modes()
def validate(options: RunOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the development split.

    Args:
        options: Fields of :class:`flowbert.options.RunOptions`, as arguments.
    """
    return _measure_checkpoint("validate", options)


@takes(RunOptions)
@usual_modes()
def test(options: RunOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the test split.

    Args:
        options: Fields of :class:`flowbert.options.RunOptions`, as arguments.
    """
    return _measure_checkpoint("test", options)


@takes(PredictOptions)
@usual_modes()
def predict(options: PredictOptions) -> Path:
    """Write the vectors of the corpus of a run into ``predictions.npy``.

    Args:
        options: Fields of :class:`flowbert.options.PredictOptions`, as arguments.

    Returns:
        Path of the file.
    """
    with _load_run("predict", options) as loaded:
        source, encoder = loaded.source, loaded.encoder
        dim = source.shape[1] if encoder is None else encoder.dim
        writer = VectorWriter(loaded.folder / "predictions.npy", (len(source), dim))
        loaded.trainer.callbacks.append(writer)
        _call(loaded, "predict", return_predictions=False)
    return writer.path


@contextmanager
def _load_run(command: str, changes: PredictOptions | RunOptions) -> Iterator[Run]:
    """A run with a checkpoint of it; what its files name is not imported."""
    run = user_path(changes.run)
    options = replace(read_run(replace(changes, run=run)), run_dir=run)
    folder = user_path(changes.run_dir or run / command)
    with imports_refused(), prepare_run(command, options, folder) as loaded:
        yield loaded


def _measure_checkpoint(command: str, changes: RunOptions) -> Results:
    with record_warnings() as warned, _load_run(command, changes) as loaded:
        _call(loaded, command)
        if not loaded.trainer.is_global_zero:
            return Results([], {})
        return measure(loaded, list_methods(loaded), warned)


def _train(run: Run) -> None:
    """Train, and restore the weights of the best score if checkpoints are chosen by one."""
    is_first = run.trainer.is_global_zero
    try:
        _call(run, "fit")
    except BaseException:
        if is_first:
            write_page(run.folder)
        raise
    for callback in run.trainer.callbacks:
        if isinstance(callback, BestCheckpoint) and is_first:
            weights = callback.best_weights(run.trainer.global_step)
            if weights is not None:
                run.module.load_state_dict(weights)


def _call(run: Run, command: str, **options: Any) -> None:
    """Call the Trainer."""
    with quiet_lightning(), seeded(run.options.seed), threads_for():
        getattr(run.trainer, command)(
            run.module,
            datamodule=run.data,
            ckpt_path=run.options.ckpt_path,
            weights_only=True,
            **options,
        )
