"""Files of an encoder in a folder or on the hub, and the settings in them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from flowbert.data.hub import fetch_encoder
from flowbert.data.sample import sample_encoder_path
from flowbert.data.text_files import user_path
from flowbert.encoders.pooling import make_pooling
from flowbert.encoders.reading import DEFAULTS
from flowbert.errors import UserError, first_line
from flowbert.io import (
    load_tensors,
    read_json,
    save_tensors,
)
from flowbert.registry import imports_refused

SAMPLE = "builtin-sample"
SETTINGS_FILE = "flowbert.json"
SENTENCE_TRANSFORMER = "flowbert.extras.sentence_transformer"
"""Import path of the module for encoders that sentence-transformers computes."""

MODULES_FILE = "modules.json"
"""File of a sentence-transformers folder that lists its modules."""

MODEL_FILE = "encoder.json"
"""File by which a folder of maps is recognized: ``model`` of a run, or an export."""

TRAINED_ENCODER = "model/encoder"
"""Folder of the trained encoder in a run."""

WEIGHTS_FILE = "token_weights.safetensors"
_WEIGHTS_KIND = "token weights"
# All but the network's weights; from_pretrained knows which of those it needs.
_SMALL_FILES = (
    "*.json",
    "*.txt",
    "*.model",
    "*.codes",
    f"*{WEIGHTS_FILE}",
    "model/*.safetensors",
)
_SETTINGS_SCHEMA: dict[str, Any] = {
    "layers": list,
    "pooling": str,
    "max_length": int,
    "template": (str, ""),
    "sink_token": (str, ""),
}


class EncoderFiles(NamedTuple):
    """Location of the files of an encoder.

    Args:
        folder: Local folder with all files; for the hub, without the weights.
        source: Folder or hub name, for ``from_pretrained``.
        revision: Commit on the hub; None for a folder.
        subfolder: Folder inside of the source.
        gguf_file: Name of the .gguf file in the folder, if the encoder is one.
    """

    folder: Path
    source: str
    revision: str | None = None
    subfolder: str = ""
    gguf_file: str | None = None


class Folder(NamedTuple):
    """Settings in the folder of an encoder.

    Args:
        reading: All entries of :data:`~flowbert.encoders.reading.DEFAULTS`; ``max_length`` None
            depends on the network.
        token_weights: Saved weights of the pooling.
        by_sentence_transformers: Whether sentence-transformers wrote the folder.
        has_map: Whether the folder is an exported model, with a map.
    """

    reading: Mapping[str, Any] = DEFAULTS
    token_weights: Tensor | None = None
    by_sentence_transformers: bool = False
    has_map: bool = False


class LibraryNeededError(UserError):
    """The error for a folder whose vectors only sentence-transformers computes.

    Args:
        path: The encoder, as the user names it.
        parts: Modules and settings that flowbert does not compute.
        encoder: The encoder that computes them; None if layers or pooling change, or it is trained.
    """

    def __init__(self, path: str, parts: Sequence[str], encoder: Any) -> None:
        super().__init__(
            f"received {path} with {', '.join(parts)}, which only sentence-transformers "
            "computes; expected load_encoder without layers and pooling, and no training",
            argument="encoder",
        )
        self.encoder = encoder


def is_sentence_transformer(value: Any) -> bool:
    """Whether a value is a SentenceTransformer; does not import the library."""
    library = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(value, library.SentenceTransformer)


def locate(
    path: str, revision: str | None = None, argument: str = "encoder"
) -> EncoderFiles:
    """Find the files of an encoder; from the hub, fetch the small ones.

    Args:
        path: A folder, a run folder, a .gguf file, a hub name, ``owner/name@revision``, or
            ``builtin-sample``.
        revision: Commit, branch or tag on the hub.
        argument: Name of the argument, for the message.

    Raises:
        UserError: If the encoder does not exist.
    """
    folder = sample_encoder_path() if path == SAMPLE else user_path(path)
    if path and folder.exists():
        if folder.suffix == ".gguf":
            source = str(folder.parent)
            return EncoderFiles(folder.parent, source, gguf_file=folder.name)
        if (folder / TRAINED_ENCODER).is_dir():
            folder = folder / TRAINED_ENCODER
        models = folder / MODEL_FILE, folder / "model" / MODEL_FILE
        is_model = any(file.is_file() for file in models)
        if is_model and not (folder / "config.json").is_file():
            raise UserError(
                f"received {path!r}, a model whose encoder is in another folder; expected an "
                f"encoder (for the model: encode --model {path}, compare --methods raw,{path})",
                argument="encoder",
            )
        return EncoderFiles(folder, str(folder))
    snapshot = fetch_encoder(path, revision, _SMALL_FILES, argument)
    subfolder = TRAINED_ENCODER if (snapshot / TRAINED_ENCODER).is_dir() else ""
    name = path.partition("@")[0]
    return EncoderFiles(snapshot / subfolder, name, snapshot.name, subfolder)


def read_folder(folder: Path) -> Folder:
    """Read ``flowbert.json`` of a folder; without it, the defaults.

    Raises:
        UserError: If the file is damaged.
    """
    settings = folder / SETTINGS_FILE
    if settings.is_file():
        reading = read_json(settings, _SETTINGS_SCHEMA)
        with imports_refused():  # a custom pooling
            reading["pooling"] = str(make_pooling(reading["pooling"]))
        has_map = bool(map_files(folder / "model"))
        return Folder(reading, load_token_weights(folder), has_map=has_map)
    return Folder()


def map_files(folder: Path) -> list[Path]:
    """Files of maps in the ``model`` of a run or an export."""
    files = sorted(folder.glob("*.safetensors"))
    # Earlier versions wrote no map as a file, too.
    return [x for x in files if x.name not in (WEIGHTS_FILE, "raw.safetensors")]


def save_token_weights(folder: Path, weights: Tensor | None) -> None:
    """Write the weights of a pooling, ``(V,)``, if it has any, into a folder."""
    if weights is not None:
        save_tensors(folder / WEIGHTS_FILE, _WEIGHTS_KIND, {"weights": weights})


def load_token_weights(folder: Path) -> Tensor | None:
    """Read the weights of a pooling, ``(V,)``, from a folder; None if it has no weights."""
    file = folder / WEIGHTS_FILE
    return load_tensors(file, _WEIGHTS_KIND)[0]["weights"] if file.is_file() else None


@contextmanager
def loading(path: str) -> Iterator[None]:
    """Context to load an encoder silently; errors about its files become UserErrors."""
    try:
        with quiet():
            yield
    except UserError:
        raise
    # transformers, tokenizers and safetensors raise a dozen types for files they cannot read.
    except Exception as error:
        raise UserError(
            f"received {path!r}; it cannot be loaded: {first_line(error)}",
            argument="encoder",
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' load reports and bars; flowbert checks the important parts itself."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
