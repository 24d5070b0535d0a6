"""Encoders by path: which class opens what."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from flowbert.arrays import Floats
from flowbert.encoders.backbone import tokenizer_digest
from flowbert.encoders.base import Encoder
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.settings import Carried, module_state
from flowbert.encoders.source import loading, locate, read_settings
from flowbert.encoders.words import WordVectors
from flowbert.errors import UserError
from flowbert.io import digest, digest_file, recall_digest

_TEXT = (".txt", ".vec", ".gz")
_MODEL_FILES = (".json", ".txt", ".model", ".safetensors", ".bin")
_OF_WORDS = ("pooling", "count_over", "token_weights", "max_words")


class SentenceTransformerFolder(nn.Module):
    """A sentence-transformers folder with further modules or settings, opened by that library.

    Args:
        path: Folder or hub name.
        revision: Commit, branch or tag on the hub.

    Raises:
        UserError: If sentence-transformers is not installed or cannot open the folder.
    """

    def __init__(self, path: str, *, revision: str | None = None) -> None:
        super().__init__()
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise UserError(
                f"received {path!r}, whose modules need sentence-transformers: "
                "pip install 'flowbert[export]'",
                argument="encoder",
            ) from None
        files = locate(path, revision)
        with loading(path):
            model: Any = SentenceTransformer(
                files.source,
                revision=files.revision,
                trust_remote_code=False,
                device="cpu",
            )
        self.model = model
        self.path = path
        self.dim = int(model.get_embedding_dimension())
        self._files = files
        self._files_digest = _digest_files(files.folder)
        self._loaded = self._state()

    def __getstate__(self) -> dict[str, Any]:
        """Everything, the weights too: the folder may be on another machine."""
        return vars(self) | {"_modules": {"model": Carried(self.model)}}

    def encode(self, sentences: Sequence[str]) -> Floats:
        """Embed N sentences: shape ``(N, D)``, float32."""
        vectors = self.model.encode(list(sentences), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32).reshape(len(sentences), self.dim)

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again."""
        return {"path": self.path, "revision": self._files.revision}

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        return {"encoder": self.path, "layers": "own", "pooling": "own"}

    @property
    def identity(self) -> dict[str, Any]:
        """Digest of the files, and of the model where it was changed since it was loaded."""
        identity = {"files": self._files_digest}
        present = self._state()
        if present != self._loaded:
            identity["changed"] = present
        return identity

    def _state(self) -> str:
        """Digest of weights, settings and tokenizer as they are now."""
        tokenizer = getattr(self.model[0], "tokenizer", None)
        rules: Any = None
        if hasattr(tokenizer, "is_fast"):
            rules = tokenizer_digest(tokenizer)
        elif tokenizer is not None and hasattr(
            tokenizer, "to_str"
        ):  # of static vectors
            rules = tokenizer.to_str()
        weights = recall_digest(self.model.state_dict())
        return digest(weights, rules, module_state(self.model))

    @property
    def pass_key(self) -> str:
        """No two share a pass."""
        return str(id(self))


def _digest_files(folder: Path) -> str:
    """Digest of the files that decide a model's vectors."""
    digests = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in _MODEL_FILES:
            digests[file.relative_to(folder).as_posix()] = digest_file(file)
    return digest(digests)


def load_encoder(path: str | Path = "builtin-sample", **settings: Any) -> Encoder:
    """Load an encoder.

    A text file is opened as :class:`WordVectors`; a folder of sentence-transformers with modules
    such as Dense or settings such as ``truncate_dim``, unless layers or pooling are given, as
    :class:`SentenceTransformerFolder`; everything else as :class:`SentenceEncoder`.

    Args:
        path: File, folder, run folder, hub name, or ``builtin-sample``.
        settings: Arguments of these classes; None is the default.

    Raises:
        UserError: If it cannot be loaded, or a setting does not fit it.
    """
    path = str(path)
    given = {name: value for name, value in settings.items() if value is not None}
    file = Path(os.path.expanduser(path))
    if file.is_file() or (file.suffix in _TEXT and not file.is_dir()):
        _refuse(given, "word vectors", "layers", "max_length", "template", "revision")
        return WordVectors(
            path, **{name: x for name, x in given.items() if name in _OF_WORDS}
        )
    if "max_words" in given:
        raise UserError(
            argument="max_words",
            received=given["max_words"],
            expected=(f"none, as {path} is no file of word vectors"),
        )
    if given.get("frozen", True) and not {"layers", "pooling"} & given.keys():
        files = locate(path, given.get("revision"))
        folder = read_settings(files.folder)
        if folder.left_out or folder.unsupported:
            _refuse(
                given, "a folder of sentence-transformers", "max_length", "template"
            )
            return SentenceTransformerFolder(path, revision=given.get("revision"))
    return SentenceEncoder(path, **given)


def _refuse(given: dict[str, Any], kind: str, *settings: str) -> None:
    """Raise an error for settings that change vectors and that this kind does not have."""
    for name in (*settings, "dtype"):
        if given.get(name, "float32") != "float32":
            raise UserError(
                argument=name, received=given[name], expected=f"none for {kind}"
            )
