"""Options of a run, and the file ``config.yaml`` of its folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from flowbert.data.text_files import as_list, read_yaml
from flowbert.errors import UserError, check_choice, first_line
from flowbert.io import folders_with, write_atomically
from flowbert.options import (
    GROUPS,
    TRAINED_METHODS,
    EncoderOptions,
    FitOptions,
    PredictOptions,
    RunOptions,
    config_text,
)
from flowbert.training.run_folder import RUN_CONFIG

_LOG_TO = ("wandb", "wandb-offline", "tensorboard")

# Objects that only a fit needs.
_OBJECTS = ("callbacks", "logger", "plugins", "profiler")


def complete(options: FitOptions) -> FitOptions:
    """Replace groups of options by dataclasses, which check their limits.

    Raises:
        UserError: If an option is unknown or outside of its limits.
    """
    log_to = as_list(options.log_to or None, "log_to")
    for name in log_to:
        check_choice("log_to", name, _LOG_TO)
    groups: dict[str, Any] = dict.fromkeys(GROUPS)  # a map has none
    if trained := TRAINED_METHODS.get(options.method):
        for name, kind in trained.groups.items():
            try:
                groups[name] = kind(**getattr(options, name) or {})
            except TypeError as error:
                raise UserError(first_line(error), argument=name) from error
    encoder = EncoderOptions.of(options.encoder)
    return replace(options, **groups, encoder=encoder, log_to=log_to)


def write_config(options: FitOptions, folder: Path) -> None:
    """Write ``config.yaml``."""
    with write_atomically(folder / RUN_CONFIG) as temporary:
        temporary.write_text(config_text(options), encoding="utf-8")


def read_run(changes: PredictOptions | RunOptions) -> FitOptions:
    """Read the options of a run, and replace some of them.

    Args:
        changes: The run folder, and options that replace those of the run.

    Raises:
        UserError: If the folder has no ``config.yaml`` of a run with checkpoints, or an option of
            the Trainer has no effect without training.
    """
    run = changes.run
    path = Path(run) / RUN_CONFIG
    runs = folders_with(run, RUN_CONFIG)
    if runs and not (path.parent / "checkpoints").is_dir():
        raise UserError(f"received {run}; expected a run: {', '.join(runs)}")
    content = dict(read_yaml(path))
    if (method := content.get("method", "flow")) not in TRAINED_METHODS:
        raise UserError(
            f"received {run} of method {method}, which is not trained; expected another run, or "
            f"compare with the methods raw,{run}",
            argument="run",
        )
    fitted_with = content.get("trainer") or {}
    trainer = {name: x for name, x in fitted_with.items() if name not in _OBJECTS}
    trainer |= changes.trainer or {}
    content |= {
        name: value for name, value in vars(changes).items() if value is not None
    }
    del content["run"]
    best = Path(run) / "checkpoints" / "best.ckpt"
    content.setdefault("ckpt_path", "best" if best.is_file() else "last")
    content |= {"trainer": trainer, "log_to": getattr(changes, "log_to", ())}
    try:
        encoder = EncoderOptions(**(content.pop("encoder", None) or {}))
        return FitOptions(encoder=encoder, **content)
    except TypeError as error:
        raise UserError(f"{path}: {first_line(error)}") from error
