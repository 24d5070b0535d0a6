"""A trained encoder on disk: a folder that transformers loads."""

import json
from pathlib import Path
from typing import Any

from flowbert.encoders.loading import DIGEST, FILES, SETTINGS_FILE
from flowbert.io.atomic import folder_written_atomically
from flowbert.io.digest import digest_file, digest_json
from flowbert.notices import quiet_transformers


def write_encoder(target: Path, network: Any, tokenizer: Any, settings: dict[str, Any] | None = None) -> None:
    """Write a network and its tokenizer; the folder appears complete or not at all, an older one is replaced.

    Args:
        target: The folder; missing parents are made.
        network: A Hugging Face model, with or without a head.
        tokenizer: The tokenizer that belongs to it.
        settings: JSON values for ``flowbert.json`` in the folder, which also gets the digests of all other files, so
            that a damaged one is not used; default: no such file.
    """
    with folder_written_atomically(target) as folder:
        with quiet_transformers():
            network.save_pretrained(folder)
        _save_tokenizer(tokenizer, folder)
        if settings is not None:
            settings = settings | {FILES: {path.name: digest_file(path) for path in sorted(folder.iterdir())}}
            settings |= {DIGEST: digest_json(settings)}
            (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    if tokenizer.is_fast:
        # What the last batch left behind; other programs would cut every sentence there.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
