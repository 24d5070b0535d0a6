"""Options of a training, and the file ``config.yaml`` of its run folder."""

from dataclasses import asdict
from pathlib import Path

import yaml

from flowbert.data.text_files import read_yaml
from flowbert.errors import UserError, first_line
from flowbert.io import as_json, folders_with
from flowbert.options import (
    TRAINED_METHODS,
    EncoderOptions,
    FitOptions,
    PredictOptions,
    RunOptions,
)
from flowbert.training.run_folder import RUN_CONFIG

_OF_A_CALL = ("run_dir", "ckpt_path", "config")

# Objects that only a fit needs.
_OBJECTS = ("callbacks", "logger", "plugins", "profiler")


def config_text(options: FitOptions) -> str:
    """Text of ``config.yaml``; of objects in memory, their types."""
    encoder = EncoderOptions.of(options.encoder)
    if isinstance(encoder, EncoderOptions):
        encoder = asdict(encoder)
    content = vars(options) | {"encoder": encoder}
    kept = {name: content[name] for name in content if name not in _OF_A_CALL}
    plain = as_json(kept, lambda x: str(x) if isinstance(x, Path) else type(x).__name__)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def read_run(changes: PredictOptions | RunOptions) -> FitOptions:
    """The options of a run, with some that replace them.

    Args:
        changes: The run folder, and the options that replace those of the run.

    Raises:
        UserError: If the folder has no ``config.yaml``, its content is not that of a run with
            checkpoints, or an option of the Trainer has no effect without training.
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
