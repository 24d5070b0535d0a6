"""A trained encoder on disk: a folder that transformers loads."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from flowbert.encoders.loading import SETTINGS_FILE
from flowbert.quiet import quiet_transformers


def write_encoder(target: Path, network: Any, tokenizer: Any, settings: dict[str, Any] | None = None) -> None:
    """Write a network and its tokenizer; the folder appears complete or not at all, an older one is replaced.

    Args:
        target: The folder; missing parents are made.
        network: A Hugging Face model, with or without a head.
        tokenizer: The tokenizer that belongs to it.
        settings: JSON values for ``flowbert.json`` in the folder; default: no such file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with quiet_transformers():
            network.save_pretrained(parts)
        _save_tokenizer(tokenizer, parts)
        if settings is not None:
            (parts / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        for path in (parts, *parts.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)  # mkdtemp makes it private
        shutil.rmtree(target, ignore_errors=True)
        os.replace(parts, target)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    if tokenizer.is_fast:
        # What the last batch left behind; other programs would cut every sentence there.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
