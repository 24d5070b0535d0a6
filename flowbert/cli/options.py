"""Option values shared by the commands that train nothing."""

import os
from pathlib import Path
from typing import Any, TypeVar

import torch
from jsonargparse import ArgumentParser

from flowbert.encoders import SentenceEncoder, name_layers
from flowbert.errors import UserError, choices

Number = TypeVar("Number", int, float)
DEVICES = ("auto", "cpu", "cuda", "mps")


def add_encoder_options(parser: ArgumentParser) -> None:
    """Add the group ``encoder``: the arguments of :meth:`SentenceEncoder.from_pretrained`, for a frozen encoder."""
    parser.add_method_arguments(SentenceEncoder, "from_pretrained", "encoder", skip={"frozen"})
    parser.set_defaults({"encoder.path": "builtin-sample"})
    for action in parser._actions:
        if action.dest == "encoder.path":
            action.required = False  # it has a default now, and the help shall not call it required


def as_list(value: str | list[str], option: str) -> list[str]:
    """Items of a comma-separated list, or of a YAML list; each once.

    Raises:
        UserError: If there is none.
    """
    items = value.split(",") if isinstance(value, str) else value
    names = list(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not names:
        raise UserError(f"{option}: received {value!r}; allowed: one name or more, comma-separated")
    return names


def as_numbers(value: str | Number | list[Number], option: str, kind: type[Number]) -> list[Number]:
    """Numbers of a comma-separated list, of a YAML list, or a single one; each once.

    Raises:
        UserError: If there is none, or one is no number of this kind.
    """
    text = value.strip("[]").split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    try:
        numbers = list(dict.fromkeys(kind(item) for item in text))
    except ValueError:
        numbers = []
    if not numbers:
        raise UserError(f"{option}: received {value!r}; allowed: numbers ({kind.__name__}), comma-separated")
    return numbers


def chosen_device(name: str) -> torch.device:
    """Device by name; ``auto`` takes an accelerator if there is one.

    Raises:
        UserError: If the name is unknown or this machine has no such device.
    """
    if name not in DEVICES:
        raise UserError(f"--device: received {name!r}; {choices(DEVICES, name)}")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, there in available.items() if there))
    if not available[name]:
        here = ", ".join(device for device, there in available.items() if there)
        raise UserError(f"--device: {name} is not available on this machine; allowed: {here}")
    return torch.device(name)


def check_output(path: str, option: str, suffixes: tuple[str, ...]) -> Path:
    """Path of a file that a command is going to write.

    Raises:
        UserError: If it is a folder or has another ending than the allowed ones.
    """
    output = Path(path)
    if output.is_dir():
        raise UserError(f"{option}: {output} is a folder; allowed: a file ending in {', '.join(suffixes)}")
    if output.suffix not in suffixes:
        raise UserError(f"{option}: received {path!r}; allowed: a file ending in {', '.join(suffixes)}")
    existing = next(folder for folder in output.absolute().parents if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise UserError(f"{option}: {existing} is not a folder that can be written; allowed: one that is")
    return output


def setting_of(encoder: SentenceEncoder) -> dict[str, Any]:
    """Columns of a results row that say what the raw embeddings are; layers by name, if they have one, and number."""
    description = encoder.describe()
    return {
        "encoder": description.pop("path"),
        "layer_numbers": description.pop("layers"),
        "layers": name_layers(encoder.layers, encoder.num_layers),
        **description,
    }
