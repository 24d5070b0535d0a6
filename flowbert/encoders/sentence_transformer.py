"""Models that sentence-transformers computes, as encoders."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from flowbert.arrays import Floats
from flowbert.encoders.backbone import tokenizer_digest
from flowbert.encoders.base import check_list
from flowbert.encoders.settings import (
    module_state,
    note_captures,
    remove_captures,
)
from flowbert.encoders.source import loading, locate
from flowbert.errors import UserError
from flowbert.io import digest, digest_file, digest_tensors

_MODEL_FILES = (".json", ".txt", ".model", ".safetensors", ".bin")


class SentenceTransformerEncoder(nn.Module):
    """A SentenceTransformer, which encodes with its own code.

    The vectors of an object in memory are cached in memory only, for one comparison: a change of
    custom modules cannot be detected.

    Args:
        model: Folder or hub name, or a SentenceTransformer.
        revision: Commit, branch or tag on the hub.

    Attributes:
        lasting: Whether the identity is valid beyond this process.

    Raises:
        UserError: If sentence-transformers is not installed or cannot open the folder.
    """

    def __init__(self, model: Any, *, revision: str | None = None) -> None:
        super().__init__()
        self.lasting = not is_sentence_transformer(model)
        self.revision = revision
        if self.lasting:
            self.path = str(model)
            model, self.revision, self._source = _load(self.path, revision)
        else:
            network = getattr(model[0], "auto_model", None)
            self.path = getattr(network, "name_or_path", "") or "SentenceTransformer"
            self._source = secrets.token_hex(16)
        self.model = model
        self.dim = int(model.get_embedding_dimension() or self.encode(["a"]).shape[1])
        self._loaded_state = self._state()

    def __getstate__(self) -> dict[str, Any]:
        """Everything, the weights too: the folder may be on another machine."""
        remove_captures(self.model)
        # A copy of an object can be changed alone.
        changed = {} if self.lasting else {"_source": secrets.token_hex(16)}
        return vars(self) | changed

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        note_captures(self.model)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return torch.device(self.model.device)

    def encode(self, sentences: Sequence[str]) -> Floats:
        """Embed N sentences: shape ``(N, D)``, float32."""
        check_list(sentences)
        vectors = self.model.encode(list(sentences), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32).reshape(len(sentences), -1)

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again."""
        return {"path": self.path, "revision": self.revision}

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        name = self.path if self.lasting else Path(self.path).name
        return {"encoder": name, "layers": "own", "pooling": "own"}

    @property
    def identity(self) -> dict[str, Any]:
        """Digest of the files, and of the model if it was changed since it was loaded."""
        identity = {"files": self._source}
        state = self._state()
        if state != self._loaded_state:
            identity["changed"] = state
        return identity

    def _state(self) -> str:
        """Digest of weights, settings and tokenizer as they are now."""
        tokenizer: Any = getattr(self.model[0], "tokenizer", None)
        rules: Any = None
        if hasattr(tokenizer, "is_fast"):
            rules = tokenizer_digest(tokenizer)
        elif hasattr(tokenizer, "to_str"):  # of static vectors
            rules = tokenizer.to_str()
        weights = digest_tensors(self.model.state_dict())
        return digest(weights, rules, module_state(self.model))

    @property
    def pass_key(self) -> str:
        """No two share a pass."""
        return str(id(self))


def is_sentence_transformer(value: Any) -> bool:
    """Whether a value is a SentenceTransformer; the library is not imported for that."""
    library = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(value, library.SentenceTransformer)


def _load(path: str, revision: str | None) -> tuple[Any, str | None, str]:
    """Model, revision and digest of the files of a folder."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise UserError(
            f"received {path!r}, whose modules need sentence-transformers: "
            "pip install sentence-transformers",
            argument="encoder",
        ) from None
    files = locate(path, revision)
    with loading(path):
        model = SentenceTransformer(
            files.source,
            revision=files.revision,
            trust_remote_code=False,
            device="cpu",
        )
    digests = {
        file.relative_to(files.folder).as_posix(): digest_file(file)
        for file in sorted(files.folder.rglob("*"))
        if file.suffix in _MODEL_FILES
    }
    return model, files.revision, digest(digests)
