"""A run, step by step from its options to its results."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from flowbert.errors import record_warnings
from flowbert.experiments import Results
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
from flowbert.fitting.run_options import complete
from flowbert.options import FitOptions
from flowbert.threads import threads_for
from flowbert.training.checkpoints import BestCheckpoint, check_fitted_on
from flowbert.training.trainer import quiet_lightning, seeded
from flowbert.vectors import EmbeddingCache


def run(command: str, options: FitOptions, folder: Path) -> Results:
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
