"""Encoders that sentence-transformers computes."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowbert.arrays import Floats
from flowbert.encoders.backbone import (
    MOST_TOKENS,
    NO_LIMIT,
    PicklableNetwork,
)
from flowbert.encoders.base import Embedder
from flowbert.encoders.folders import (
    MODULES_FILE,
    EncoderFiles,
    Folder,
    LibraryNeededError,
    loading,
)
from flowbert.encoders.pooling import POOLING_NAMES
from flowbert.encoders.template import SLOT
from flowbert.errors import warn
from flowbert.io import digest, digest_tensors, read_json

_HIDDEN_STATES = {
    "text": {"method": "forward", "method_output_name": "last_hidden_state"}
}
_MODEL_FILES = (".json", ".txt", ".model")


class SentenceTransformerEncoder(Embedder, PicklableNetwork):
    """A SentenceTransformer, whose own code encodes.

    The vectors of an object in memory are cached in memory only, for one comparison, because
    changes of custom modules cannot be detected.

    Args:
        model: The SentenceTransformer.
        path: Folder or hub name, if it was loaded from there.
        files: The files of the folder.

    Attributes:
        is_on_disk: Whether it is a folder, whose identity is valid beyond this process.
    """

    def __init__(
        self, model: Any, path: str = "", files: EncoderFiles | None = None
    ) -> None:
        super().__init__()
        self.is_on_disk = files is not None
        self.revision = None if files is None else files.revision
        if files is None:
            network = getattr(model[0], "auto_model", None)
            path = getattr(network, "name_or_path", "") or "SentenceTransformer"
        self.path = path
        self._source = _digest_files(files.folder) if files else secrets.token_hex(16)
        self.model = model
        self.dim = int(model.get_embedding_dimension() or self.embed(["a"]).shape[1])

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return torch.device(self.model.device)

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Vectors of a list of N sentences: ``(N, D)``, float32."""
        with torch.autocast(self.device.type, enabled=False):
            vectors = self.model.encode(list(sentences), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32).reshape(len(sentences), -1)

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again."""
        return {"path": self.path, "revision": self.revision}

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        name = self.path if self.is_on_disk else Path(self.path).name
        return {"encoder": name, "layers": "own", "pooling": "own"}

    @property
    def identity(self) -> dict[str, Any]:
        """Digests of the files and of the current weights."""
        weights = digest_tensors(self.model.state_dict())
        return {"files": self._source, "weights": weights}


def _digest_files(folder: Path) -> str:
    """Digest of the files of a model, except for its weights."""
    return digest(
        {
            file.relative_to(folder).as_posix(): file.read_bytes().hex()
            for file in sorted(folder.rglob("*"))
            if file.suffix in _MODEL_FILES
        }
    )


def open_transformer(
    path: str, files: EncoderFiles, is_changed: bool, frozen: bool
) -> tuple[Any, Any, Folder, str]:
    """Open a folder for computation by flowbert; its network is loaded again, and checked.

    Code in the folder is never run. A warning names the parts that are left out.

    Args:
        path: The encoder, as the user names it.
        files: Files of the encoder.
        is_changed: Whether modules and settings that flowbert does not compute may be left out.
        frozen: Whether the encoder is frozen.

    Returns:
        Configuration and tokenizer of sentence-transformers, the settings of the folder, and the
        subfolder of the network.

    Raises:
        UserError: If it cannot be loaded.
        LibraryNeededError: If only sentence-transformers computes the vectors.
    """
    with loading(path):
        from sentence_transformers import SentenceTransformer

        model: Any = SentenceTransformer(
            files.source,
            revision=files.revision,
            local_files_only=files.revision is None,
            trust_remote_code=False,
            device="cpu",
        )
        reading, left_out = read_modules(model)
        subfolder = read_json(files.folder / MODULES_FILE, list)[0]["path"]
    if left_out and not (is_changed and reading):
        encoder = SentenceTransformerEncoder(model, path, files)
        raise LibraryNeededError(path, left_out, None if is_changed else encoder)
    if left_out:
        warn(f"encoder: {path} is used without its {', '.join(left_out)}")
    elif frozen and type(model[-1]).__name__ == "Normalize":
        warn(
            f"encoder: {path} ends in Normalize, which is dropped: cosines are unchanged, but a "
            "map is fitted on vectors that are not normalized"
        )
    folder = Folder(reading, by_sentence_transformers=True)
    return model[0].auto_model.config, model[0].tokenizer, folder, subfolder


def read_modules(model: Any) -> tuple[dict[str, Any], list[str]]:
    """The reading of a SentenceTransformer, and the parts that flowbert does not compute.

    The reading is empty if the first module is not a plain Transformer.

    References:
        https://sbert.net/docs/package_reference/base/modules.html
    """
    from sentence_transformers.sentence_transformer.modules import (
        Normalize,
        Pooling,
        Transformer,
    )

    first, *others = model
    if type(first) is not Transformer:
        return {}, [type(module).__name__ for module in model]
    prompt = model.prompts.get(model.default_prompt_name) or ""
    left_out = {
        "truncate_dim": model.truncate_dim is not None,
        "default prompt": any(
            token in prompt for token in (SLOT, *first.tokenizer.all_special_tokens)
        ),
        "processing_kwargs": first.processing_kwargs,
        "modality_config": first.modality_config != _HIDDEN_STATES,
        "module_output_name": first.module_output_name != "token_embeddings",
    }
    pooling = "mean"
    if others and type(others[0]) is Pooling:
        mode = others.pop(0)
        left_out["include_prompt"] = not mode.include_prompt
        left_out["pooling_mode"] = mode.pooling_mode not in POOLING_NAMES
        pooling = POOLING_NAMES.get(mode.pooling_mode, pooling)
    else:
        left_out["missing Pooling"] = True
    if others and type(others[-1]) is Normalize:
        others.pop()
    has_template = prompt and not left_out["default prompt"]
    limit = model.max_seq_length
    reading = {
        "layers": "last",
        "pooling": pooling,
        "max_length": limit if limit <= MOST_TOKENS else NO_LIMIT,
        "template": f"{prompt}{SLOT}" if has_template else "",
        "sink_token": "",
    }
    modules = [type(module).__name__ for module in others]
    return reading, modules + [name for name, is_out in left_out.items() if is_out]
