"""The functions that train a method, and that measure or use the trained model."""

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flowbert.data.text_files import user_path
from flowbert.errors import check_choice, record_warnings
from flowbert.experiments import Results
from flowbert.experiments.compare import check_options
from flowbert.experiments.results import write_page
from flowbert.fitting.outcome import (
    list_maps,
    log_scores,
    measure,
    save,
    write_analysis,
)
from flowbert.fitting.parts import (
    add_outputs,
    claim,
    describe_fitted,
    embed,
    find_checkpoint_of,
    load_labels_of,
    load_source,
    load_tasks_of,
    logging_ended,
    make_batches,
    make_closed_form,
    make_evaluations,
    make_flow,
    make_trainer_of,
    methods_on_text,
    open_encoder_of,
)
from flowbert.fitting.run_options import complete, read_run, write_config
from flowbert.options import (
    FitOptions,
    PredictOptions,
    RunOptions,
    ValidateOptions,
    takes,
)
from flowbert.precision import usual_modes
from flowbert.progress import tell
from flowbert.registry import imports_refused
from flowbert.threads import threads_for
from flowbert.training.checkpoints import BestCheckpoint, check_fitted_on
from flowbert.training.run_folder import claim_folder, is_first_process, new_folder
from flowbert.training.trainer import quiet_lightning, seeded
from flowbert.vectors import EmbeddingCache

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

    A fit that resumes by ``ckpt_path`` takes the same options, except for length, devices and
    logging. In Python, ``corpus`` may also be sentences in memory, as of
    :func:`flowbert.data.corpus.load_corpus`, ``vectors`` an array or tensor ``(N, D)``, and
    ``tasks`` pairs in memory, as of :func:`flowbert.compare`.

    Args:
        options: Fields of :class:`flowbert.options.FitOptions`, as arguments.

    Returns:
        The results of :func:`flowbert.compare`; empty on all processes but the first.

    Raises:
        UserError: If an argument is wrong; no file has been written then.
    """
    folder = user_path(options.run_dir or new_folder(options.method))
    if options.seeds is None:
        return _execute("fit", options, folder)
    return _fit_seeds(options, check_options(options.seeds, None), folder)


def _fit_seeds(options: FitOptions, seeds: Sequence[int], folder: Path) -> Results:
    """Fit once per seed, and compare; a resumed fit reads what is finished."""
    if options.ckpt_path is not None:
        check_choice("ckpt_path", options.ckpt_path, ["last"])  # of each seed
    is_first = is_first_process()
    resumed = options.ckpt_path and folder / "last.ckpt"
    with claim_folder(folder, resumed) if is_first else nullcontext():
        if is_first:
            write_config(options, folder)
        runs = []
        for number, seed in enumerate(seeds, 1):
            tell(f"seed {number} of {len(seeds)}")
            runs.append(_fit_seed(options, folder / f"seed-{seed}", seed))
        records = {record.key: record for each in runs for record in each.records}
        if not records:
            return runs[-1]
        results = Results.of(list(records.values()), runs[-1].about)
        warned = [text for each in runs for text in each.about["warnings"]]
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
    changed = {"seed": seed, "seeds": None, "run_dir": folder, "ckpt_path": ckpt_path}
    return fit(**vars(options) | changed)


@takes(ValidateOptions)
@usual_modes()
def validate(options: ValidateOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the development split.

    Args:
        options: Fields of :class:`flowbert.options.ValidateOptions`, as arguments.
    """
    return _use_checkpoint("validate", options)


@takes(RunOptions)
@usual_modes()
def test(options: RunOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the test split.

    Args:
        options: Fields of :class:`flowbert.options.RunOptions`, as arguments.
    """
    return _use_checkpoint("test", options)


@takes(PredictOptions)
@usual_modes()
def predict(options: PredictOptions) -> Path:
    """Write the vectors of the corpus of a run into ``predictions.npy``.

    Args:
        options: Fields of :class:`flowbert.options.PredictOptions`, as arguments.

    Returns:
        Path of the file.
    """
    _use_checkpoint("predict", options)
    return (
        user_path(options.run_dir or user_path(options.run) / "predict")
        / "predictions.npy"
    )


def _use_checkpoint(command: str, changes: PredictOptions | RunOptions) -> Results:
    """Run a command with a checkpoint of a fit; no module named in its files is imported."""
    fitted = user_path(changes.run)
    options = replace(read_run(replace(changes, run=fitted)), run_dir=fitted)
    with imports_refused():
        return _execute(
            command, options, user_path(changes.run_dir or fitted / command)
        )


def _execute(command: str, options: FitOptions, folder: Path) -> Results:
    """Fit, validate, test or predict.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options of the fit, some of them replaced for other commands.
        folder: The folder to write into.

    Returns:
        The results; empty without tasks, for a prediction, and on all processes but the first.
    """
    with record_warnings() as warned, ExitStack() as held:
        options, fitted_before = find_checkpoint_of(complete(options))
        closed_form = make_closed_form(options)
        tasks = load_tasks_of(options, "dev" if command == "validate" else "test")
        cache = EmbeddingCache(options.cache)
        held.enter_context(claim(command, options, folder))
        held.enter_context(logging_ended(options))
        with seeded(options.seed):
            # The device of the encoder is the Trainer's, and a mistake in its options is an error
            # before a network is loaded.
            trainer = make_trainer_of(options, folder, tasks)
            device, is_first = trainer.strategy.root_device, trainer.is_global_zero
            labels = load_labels_of(closed_form, tasks)
            source = load_source(options, tasks)
            encoder = open_encoder_of(options, source, device)
            dim = source.shape[1] if encoder is None else encoder.dim
            fitted_on = describe_fitted(encoder, source)
            check_fitted_on(fitted_before, fitted_on, options.ckpt_path)
            pairs = None
            if options.trains_encoder:
                on_text = methods_on_text()
                module, data = on_text.make_module(options, encoder, source)
            else:
                module = make_flow(options, dim, closed_form)
                rows, pairs = embed(cache, encoder, source, tasks, labels)
                data = make_batches(options, rows, source)
        add_outputs(command, trainer, options, folder, (len(source), dim))
        if module is not None:
            module.fitted_on = fitted_on
            measured = make_evaluations(tasks, cache, encoder, closed_form, pairs)
            trainer.callbacks[:0] = measured
            _train(command, trainer, module, data, options, folder)
        if command == "predict" or not is_first or trainer.fast_dev_run:
            return Results([], {})
        if options.trains_encoder:
            methods = on_text.list_methods(options, module, encoder, data, cache)
        else:
            methods = list_maps(options, module, closed_form, data, pairs, trainer)
        if command == "fit":
            save(options, encoder, methods, folder)
        results = measure(options, encoder, methods, tasks, cache, device)
        results.about["warnings"] = list(warned)
        results.about["fitted_on"] = data.describe() | {"total": len(source)}
        results.save(folder / "results.json")
        parts = results, options.seed, encoder, source, module, data
        write_page(folder, partial(write_analysis, folder, *parts))
        log_scores(trainer, results)
        return results


def _train(
    command: str,
    trainer: Any,
    module: Any,
    data: Any,
    options: FitOptions,
    folder: Path,
) -> None:
    """Call the Trainer; after a fit, restore the weights of the best score if they were kept."""
    settings = {"return_predictions": False} if command == "predict" else {}
    try:
        with quiet_lightning(), seeded(options.seed), threads_for():
            getattr(trainer, command)(
                module,
                datamodule=data,
                ckpt_path=options.ckpt_path,
                weights_only=True,
                **settings,
            )
    except BaseException:
        if command == "fit" and trainer.is_global_zero:
            write_page(folder)
        raise
    for callback in trainer.callbacks if command == "fit" else ():
        if isinstance(callback, BestCheckpoint) and trainer.is_global_zero:
            weights = callback.best_weights(trainer.global_step)
            if weights is not None:
                module.load_state_dict(weights)
