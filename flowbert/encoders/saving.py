"""A trained encoder on disk: a folder that transformers loads, and beside the weights how it is meant to be used."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from flowbert.encoders.token_counts import TokenCounts
from flowbert.errors import UserError
from flowbert.io.atomic import folder_written_atomically
from flowbert.io.digest import digest_file, digest_json
from flowbert.io.json_file import read_json
from flowbert.io.run_folder import RunFolder
from flowbert.notices import transformers_notices_off

SETTINGS_FILE = "flowbert.json"  # beside the weights of an encoder trained here: its layers, pooling, ...
_COUNTS_FILE = "flowbert.counts"  # beside it: token counts, where the pooling needs them
_FILES = "files"  # in it: digests of the files beside it
_DIGEST = "digest"  # of all that it holds beside this


def write_encoder(
    target: Path,
    network: Any,
    tokenizer: Any,
    settings: dict[str, Any] | None = None,
    counts: TokenCounts | None = None,
) -> None:
    """Write a network and its tokenizer; the folder appears complete or not at all, an older one is replaced.

    Args:
        target: The folder; missing parents are made.
        network: A Hugging Face model, with or without a head.
        tokenizer: The tokenizer that belongs to it.
        settings: JSON values for ``flowbert.json`` in the folder, which also gets the digests of all other files, so
            that a damaged one is not used; default: no such file.
        counts: Token counts of its pooling, if it needs them.
    """
    with folder_written_atomically(target) as folder:
        with transformers_notices_off():
            network.save_pretrained(folder)
        if tokenizer.is_fast:
            # What the last batch left behind; other programs would cut every sentence there.
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        tokenizer.save_pretrained(folder)
        if counts is not None:
            counts.save(folder / _COUNTS_FILE)
        if settings is not None:
            settings = settings | {_FILES: {path.name: digest_file(path) for path in sorted(folder.iterdir())}}
            settings |= {_DIGEST: digest_json(settings)}
            (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def trained_settings(path: str) -> dict[str, Any]:
    """How an encoder that was trained here is meant to be used: ``layers``, ``pooling``, ``max_length``, ...

    Args:
        path: The folder of an encoder, or a run folder; anything else has no settings.

    Returns:
        The settings that it has; ``counts`` are :class:`TokenCounts`, where its pooling needs them.

    Raises:
        UserError: If the file with them is damaged.
    """
    settings = {name: value for name, value in _read_settings(path).items() if name != _FILES}
    counts = [TokenCounts.load(folder / _COUNTS_FILE) for folder in _folders(path) if (folder / _COUNTS_FILE).is_file()]
    return settings | ({"counts": counts[0]} if counts else {})


def check_unchanged(path: str) -> None:
    """Refuse an encoder whose files are not as they were written here.

    Raises:
        UserError: If one is gone, damaged or changed.
    """
    folder = Path(path)
    for name, digest in _read_settings(path).get(_FILES, {}).items():
        if not (folder / name).is_file() or digest_file(folder / name) != digest:
            raise UserError(
                f"encoder: {folder / name} is damaged or was changed; needed: the folder as it was written, "
                f"or {SETTINGS_FILE} without {_FILES!r} and {_DIGEST!r} if the change is meant"
            )


def _folders(path: str) -> list[Path]:
    """Where the files of an encoder may lie: in the model of a run, or in the folder itself."""
    folder = Path(path).expanduser()
    return [RunFolder(folder).encoder, folder] if path else []


def _read_settings(path: str) -> dict[str, Any]:
    for file in (folder / SETTINGS_FILE for folder in _folders(path)):
        if file.is_file():
            settings: dict[str, Any] = read_json(file)
            digest = settings.pop(_DIGEST, None)
            if (digest is not None or _FILES in settings) and digest != digest_json(settings):
                raise UserError(
                    f"{file}: damaged, or changed; needed: the file as it was written, or one without {_DIGEST!r} and "
                    f"{_FILES!r} if the change is meant"
                )
            return settings
    return {}


def tokenizer_files(tokenizer: Any) -> dict[str, str]:
    """A tokenizer as text, for a checkpoint: name of a file that ``save_pretrained`` writes -> its content."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def tokenizer_of(files: Mapping[str, str]) -> Any:
    """The tokenizer of :func:`tokenizer_files`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return AutoTokenizer.from_pretrained(folder)
