"""The functions that train a method, and those that measure or use what was trained."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError, hear_warnings
from flowbert.experiments import Results
from flowbert.experiments.candidates import Candidate
from flowbert.fitting.closed_form import ClosedForm
from flowbert.fitting.outcome import measure, save, trained, write_page
from flowbert.fitting.prepare import Prepared, prepared
from flowbert.io import write_atomically
from flowbert.loggers import make_loggers, make_named_loggers
from flowbert.methods import METHODS
from flowbert.threads import threads_for
from flowbert.training import VectorWriter
from flowbert.training.checkpoints import BestCheckpoint
from flowbert.training.fit_options import FitOptions
from flowbert.training.trainer import quiet_lightning, seeded

__all__ = ["FitOptions", "fit", "predict", "test", "validate"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _takes_options(function: Function) -> Function:
    """Let a function show the arguments that it takes as ``**options``."""
    shown = inspect.signature(FitOptions)
    returns = inspect.signature(function).return_annotation
    function.__signature__ = shown.replace(return_annotation=returns)  # type: ignore[attr-defined]
    return function


@_takes_options
def fit(
    method: str = "flow",
    encoder: EncoderOptions | str = "builtin-sample",
    **options: Any,
) -> Results:
    """Train a method, compare it with its baselines on the test split, save everything.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, ``distillation``, or a map that is
            fitted in closed form.
        encoder: The encoder, or its path.
        **options: Further arguments, see :class:`FitOptions`.

    Returns:
        The results of :func:`flowbert.compare`; empty on all processes but the first.

    Raises:
        UserError: If an argument is wrong; nothing has been written then.
    """
    given = FitOptions(method=method, encoder=encoder, **options)
    with hear_warnings() as heard, prepared("fit", given) as run:
        if run.is_first and given.config is not None:
            with write_atomically(run.folder / "config.yaml") as temporary:
                temporary.write_text(given.config, encoding="utf-8")
        if isinstance(run.method, ClosedForm):
            candidates = [_fit_in_closed_form(run, run.method)]
        else:
            _train(run)
            if not run.is_first or run.is_trial:
                return Results([], {})
            candidates = trained(run)
        if not run.is_first:
            return Results([], {})
        save(run, candidates)
        return measure(run, candidates, heard)


@_takes_options
def validate(
    method: str = "flow",
    encoder: EncoderOptions | str = "builtin-sample",
    **options: Any,
) -> Results:
    """Log the likelihood or loss of a checkpoint, and compare on the development split.

    The arguments are those of :func:`fit`; ``ckpt_path`` is needed.
    """
    return _measure_checkpoint("validate", method, encoder, options)


@_takes_options
def test(
    method: str = "flow",  # noqa: PT028
    encoder: EncoderOptions | str = "builtin-sample",  # noqa: PT028
    **options: Any,
) -> Results:
    """Log the likelihood or loss of a checkpoint, and compare on the test split.

    The arguments are those of :func:`fit`; ``ckpt_path`` is needed.
    """
    return _measure_checkpoint("test", method, encoder, options)


@_takes_options
def predict(
    method: str = "flow",
    encoder: EncoderOptions | str = "builtin-sample",
    **options: Any,
) -> Path:
    """Write the vectors of what is fitted on into ``predictions.npy``.

    The arguments are those of :func:`fit`; ``ckpt_path`` is needed.

    Returns:
        Path of the file.
    """
    given = _of_checkpoint("predict", method, encoder, options)
    with prepared("predict", given) as run:
        writer = VectorWriter(run.folder / "predictions.npy", run.method.shape)
        run.trainer.callbacks.append(writer)  # type: ignore[attr-defined]
        _call(run, "predict", return_predictions=False)
    return writer.path


def _of_checkpoint(
    command: str, method: str, encoder: EncoderOptions | str, options: dict[str, Any]
) -> FitOptions:
    """Options with a checkpoint of a method that a Trainer trains.

    Raises:
        UserError: If there is none.
    """
    given = FitOptions(method=method, encoder=encoder, **options)
    if method not in METHODS:
        raise UserError(
            f"received {method}, which is fitted without a Trainer; expected "
            f"{', '.join(METHODS)}",
            argument="method",
        )
    if given.ckpt_path is None:
        raise UserError(
            f"received nothing; expected a checkpoint to {command}",
            argument="ckpt_path",
        )
    return given


def _measure_checkpoint(
    command: str, method: str, encoder: EncoderOptions | str, options: dict[str, Any]
) -> Results:
    given = _of_checkpoint(command, method, encoder, options)
    with hear_warnings() as heard, prepared(command, given) as run:
        _call(run, command)
        if not run.is_first:
            return Results([], {})
        return measure(run, trained(run), heard)


def _fit_in_closed_form(run: Prepared, method: ClosedForm) -> Candidate:
    """The fitted map."""
    named = make_named_loggers(run.options.log_to, run.folder)
    run.trainer.loggers += named
    fitted = method.fit(run.pairs())
    seed = run.options.seed if fitted.seeded else run.seed_of_sample
    return Candidate(run.options.method, fitted, True, method.corpus, seed)


def _train(run: Prepared) -> None:
    """Train, and take the weights of the best score where one is looked at."""
    try:
        _call(run, "fit")
    except BaseException:
        if run.is_first:
            write_page(run)
        raise
    for callback in run.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, BestCheckpoint) and run.is_first:
            weights = callback.best_weights(run.trainer.global_step)
            if weights is not None:
                run.method.module.load_state_dict(weights)


def _call(run: Prepared, command: str, **options: Any) -> None:
    """Call the Trainer."""
    if run.is_first:
        run.trainer.loggers += make_loggers(run.options.log_to, run.folder)
    with quiet_lightning(), seeded(run.options.seed), threads_for():
        getattr(run.trainer, command)(
            run.method.module,
            datamodule=run.method.data,
            ckpt_path=run.options.ckpt_path,
            weights_only=True,
            **options,
        )
