"""A tokenizer as text, for the checkpoint of an encoder whose vocabulary was made for it."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer


def tokenizer_files(tokenizer: Any) -> dict[str, str]:
    """What ``save_pretrained`` writes: name of a file -> its text."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def tokenizer_of(files: Mapping[str, str]) -> Any:
    """The tokenizer of :func:`tokenizer_files`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return AutoTokenizer.from_pretrained(folder)
