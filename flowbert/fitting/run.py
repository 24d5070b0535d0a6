"""A run from its options to its results, in the order in which things happen."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from flowbert.errors import record_warnings
from flowbert.experiments import Results
from flowbert.fitting import outcome, parts
from flowbert.fitting.run_options import complete, write_config
from flowbert.options import FitOptions
from flowbert.threads import threads_for
from flowbert.training import VectorWriter
from flowbert.training.checkpoints import BestCheckpoint
from flowbert.training.trainer import quiet_lightning, seeded
from flowbert.vectors import EmbeddingCache


def run(command: str, options: FitOptions, folder: Path) -> Results:
    """Fit, validate, test or predict.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        options: The options of the fit; other commands replace some.
        folder: The folder to write into.

    Returns:
        The results; empty without tasks, of a prediction, and on all processes but the first.

    Raises:
        UserError: If an option is wrong; nothing has been written then.
    """
    with record_warnings() as warned, ExitStack() as held:
        options, fitted_before = parts.find_checkpoint_of(complete(options))
        closed_form = parts.make_closed_form(options)
        tasks = parts.load_tasks(options, "dev" if command == "validate" else "test")
        cache = EmbeddingCache(options.cache)
        held.enter_context(parts.claim(command, options, folder))
        held.enter_context(parts.logging_ended(options))
        with seeded(options.seed):
            trainer = parts.make_trainer_of(options, folder, tasks)
            device, is_first = trainer.strategy.root_device, trainer.is_global_zero
            labels = parts.load_labels(closed_form, tasks)
            source = parts.load_source(options, tasks)
            encoder = parts.open_encoder_of(options, source, device)
            dim = source.shape[1] if encoder is None else encoder.dim
            fitted_on = parts.check_fitted(
                fitted_before, encoder, source, options.ckpt_path
            )
            pairs = None
            if options.trains_encoder:
                module, data = parts.methods_on_text().make_module(
                    options, encoder, source
                )
            else:
                module = parts.make_flow(options, dim, closed_form)
                rows, pairs = parts.embed(cache, encoder, source, tasks, labels)
                data = parts.make_batches(options, rows, source)
        if is_first:
            trainer.loggers += parts.make_loggers(options.log_to, folder)
        if command == "fit" and is_first:
            write_config(options, folder)
        if command == "predict":
            vectors = VectorWriter(folder / "predictions.npy", (len(source), dim))
            trainer.callbacks.append(vectors)
        if module is not None:
            module.fitted_on = fitted_on
            trainer.callbacks[:0] = parts.make_evaluations(
                tasks, cache, encoder, closed_form, pairs
            )
            try:
                _train(command, trainer, module, data, options)
            except BaseException:
                if command == "fit" and is_first:
                    outcome.write_page(folder)
                raise
        if command == "predict" or not is_first or trainer.fast_dev_run:
            return Results([], {})
        if module is None:
            methods = [
                outcome.fit_closed_form(options, closed_form, data, pairs, device)
            ]
        elif options.trains_encoder:
            methods = parts.methods_on_text().list_methods(
                options, module, encoder, data, cache
            )
        else:
            methods = outcome.flow_and_baseline(
                options, module, closed_form, data, pairs, folder
            )
        if command == "fit":
            outcome.save(options, encoder, methods, folder)
        results = outcome.measure(options, encoder, methods, tasks, cache, device)
        results.about["warnings"] = list(warned)
        results.about["fitted_on"] = data.describe() | {"total": len(source)}
        results.save(folder / "results.json")
        analyze = partial(
            outcome.analyze,
            folder,
            results,
            options.seed,
            encoder,
            source,
            module,
            data,
        )
        outcome.write_page(folder, analyze)
        outcome.log_scores(trainer, results)
        return results


def _train(
    command: str, trainer: Any, module: Any, data: Any, options: FitOptions
) -> None:
    """Call the Trainer; after a fit, restore the weights of the best score, if one is kept."""
    with quiet_lightning(), seeded(options.seed), threads_for():
        getattr(trainer, command)(
            module,
            datamodule=data,
            ckpt_path=options.ckpt_path,
            weights_only=True,
            **{"return_predictions": False} if command == "predict" else {},
        )
    for callback in trainer.callbacks if command == "fit" else ():
        if isinstance(callback, BestCheckpoint) and trainer.is_global_zero:
            weights = callback.best_weights(trainer.global_step)
            if weights is not None:
                module.load_state_dict(weights)
