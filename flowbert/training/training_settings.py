"""What decides a training, in words: written into its checkpoints, compared when it resumes."""

import inspect
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Trainer
from torch import nn

from flowbert.encoders import check_same_encoder, differing_keys
from flowbert.errors import UserError
from flowbert.io import digest_tensors

_LENGTH = "how long it takes; a schedule over the run is compared by its steps"
_PLACE = "where; the number of processes is compared"
_SHOWN = "what is shown, logged and written"
_VALIDATES = "validation changes no weight and draws no number that training uses"
_SAME = "the batches are the same"

MAY_CHANGE: dict[str, str] = {
    **dict.fromkeys(
        ("max_epochs", "min_epochs", "max_steps", "min_steps", "max_time"), _LENGTH
    ),
    **dict.fromkeys(("accelerator", "strategy", "devices", "num_nodes"), _PLACE),
    **dict.fromkeys(
        (
            "logger",
            "log_every_n_steps",
            "enable_progress_bar",
            "enable_model_summary",
            "enable_autolog_hparams",
            "enable_checkpointing",
            "default_root_dir",
            "model_registry",
            "profiler",
            "detect_anomaly",
            "barebones",
        ),
        _SHOWN,
    ),
    **dict.fromkeys(
        (
            "limit_val_batches",
            "limit_test_batches",
            "limit_predict_batches",
            "val_check_interval",
            "check_val_every_n_epoch",
            "num_sanity_val_steps",
            "inference_mode",
        ),
        _VALIDATES,
    ),
    **dict.fromkeys(
        ("reload_dataloaders_every_n_epochs", "use_distributed_sampler"), _SAME
    ),
    "callbacks": "those of Lightning that change a training are compared by their states' names",
}
"""Options of the Trainer that a resumed run may have another value of, each with the reason."""

# Lightning's callbacks that watch a training and do not change it.
_WATCHING = (
    "BatchSizeFinder",
    "Checkpoint",
    "DeviceStatsMonitor",
    "LearningRateMonitor",
    "ModelSummary",
    "OnExceptionCheckpoint",
    "ProgressBar",
    "SpikeDetection",
    "ThroughputMonitor",
    "Timer",
)


# Options of a number of batches, or of a share of them.
_SHARES = ("limit_", "overfit_batches", "val_check_interval")

_JSON_TYPES = (bool, int, float, str)


def trainer_settings(trainer: Trainer, options: Mapping[str, Any]) -> dict[str, Any]:
    """What of a Trainer decides a training, by names such as ``trainer.precision``.

    Args:
        trainer: The Trainer.
        options: Arguments that it was made with, as far as they are known; what it does not tell
            by itself is taken from them.
    """
    settings = {}
    for name, parameter in inspect.signature(Trainer).parameters.items():
        if name not in MAY_CHANGE:
            given = getattr(trainer, name, options.get(name, parameter.default))
            settings[f"trainer.{name}"] = describe_trainer_option(name, given)
    settings["trainer.devices"] = trainer.world_size
    settings["trainer.callbacks"] = sorted(
        each.state_key
        for each in trainer.callbacks  # type: ignore[attr-defined]
        if type(each).__module__.startswith("pytorch_lightning")
        and not any(kind.__name__ in _WATCHING for kind in type(each).__mro__)
    )
    return settings


def describe_trainer_option(name: str, value: Any) -> Any:
    """An option of a Trainer as a JSON value in which 1, a batch, and 1.0, all of them, differ.

    Example:
        >>> [describe_trainer_option("limit_train_batches", value) for value in (1, 1.0)]
        [1, '1.0']
    """
    described = describe(value)
    is_share = name.startswith(_SHARES) and isinstance(described, float)
    return str(described) if is_share else described


def describe(value: Any) -> Any:
    """A value as JSON values: objects by their class and what they were made with.

    Example:
        >>> describe(nn.Dropout(0.1))
        {'class': 'Dropout', 'p': 0.1, 'inplace': False}
    """
    # Some are texts and numbers, too, but no plain ones, which alone a checkpoint holds.
    if isinstance(value, Enum):
        return describe(value.value)
    if isinstance(value, torch.Tensor | np.generic | np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, _JSON_TYPES):
        return value
    if isinstance(value, Mapping):
        return {str(name): describe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    if isinstance(value, partial):
        made = [value.func, *value.args]
        return {"call": describe(made), "with": describe(value.keywords)}
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return name
    kind = type(value)
    described: dict[str, Any] = {"class": kind.__qualname__}
    if isinstance(value, nn.Module) and value.state_dict():
        described["weights"] = digest_tensors(value.state_dict())
    for key, each in vars(value).items():
        if key[0] != "_" and key != "training":  # the mode of a torch module
            plain = (type(None), *_JSON_TYPES, list, tuple, dict)
            described[key] = (
                describe(each) if isinstance(each, plain) else str(type(each))
            )
    return described


class TrainingSettings:
    """What decides a training, by name: kept for its checkpoints, compared with a given one.

    Args:
        saved: Settings of the checkpoint that is given, if one is.
        path: Its name.

    Attributes:
        values: What was added.
    """

    def __init__(
        self, saved: Mapping[str, Any] | None = None, path: object = None
    ) -> None:
        self.saved = saved
        self.path = path
        self.values: dict[str, Any] = {}

    def add(self, **values: Any) -> None:
        """Keep settings.

        Raises:
            UserError: If the checkpoint has another value of one.
        """
        self.values |= values
        if self.saved is not None:
            check_settings(self.saved, values, self.path)

    def adopt(self, group: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Options of a group, those that are not given as in the checkpoint.

        Args:
            group: ``model`` or ``data``.
            given: Options as given; None where they are not.

        Raises:
            UserError: If the checkpoint has another value of one.
        """
        options = {
            name: value for name, value in (given or {}).items() if value is not None
        }
        own = {
            name.removeprefix(f"{group}."): value
            for name, value in (self.saved or {}).items()
            if name.startswith(f"{group}.")
        }
        for name, value in own.items():
            if name in options:
                described = {f"{group}.{name}": describe(options[name])}
                check_settings({f"{group}.{name}": value}, described, self.path)
        return own | options


def check_settings(
    saved: Mapping[str, Any], here: Mapping[str, Any], path: object = "the checkpoint"
) -> None:
    """Compare settings with those of a checkpoint.

    What has a digest is compared by all but its name.

    Args:
        saved: Those of the checkpoint.
        here: Those at hand.
        path: Name of the checkpoint.

    Raises:
        UserError: With the first that differs.
    """
    for name, value in here.items():
        if name not in saved:
            raise UserError(
                f"{path} does not say its {name}; expected a checkpoint of this version",
                argument="ckpt_path",
            )
        other = saved[name]
        if name == "encoder":
            _check_encoder(other, value, path)
        elif isinstance(value, Mapping) and "digest" in value:
            _check_data(name, other, value, path)
        elif other != value:
            option = "seed" if name.endswith(".seed") else name
            raise UserError(
                f"received {_text(value)} for {path}; expected {_text(other)}, as saved",
                argument=option,
            )


def _check_encoder(saved: Any, here: Any, path: object) -> None:
    if saved is not None and here is not None:
        check_same_encoder(saved, here, f"checkpoint {path}")
    elif saved != here:
        kinds = ["vectors" if each is None else "sentences" for each in (saved, here)]
        raise UserError(
            f"{path} was fitted on {kinds[0]}; received {kinds[1]}",
            argument="ckpt_path",
        )


def _check_data(name: str, saved: Any, here: Mapping[str, Any], path: object) -> None:
    if set(differing_keys(saved, here)) - {"name"}:
        raise UserError(
            f"received {here['name']!r} for {path}, which was fitted on other sentences "
            f"or vectors ({saved.get('name')!r}); expected the same ones",
            argument=name,
        )


def _text(value: Any) -> str:
    """A described value for a message."""
    if isinstance(value, Mapping) and "class" in value:
        options = [f"{key}={each!r}" for key, each in value.items() if key != "class"]
        return f"{value['class']}({', '.join(options)})"
    return repr(value)
