"""A model: an encoder and a fitted map behind one call, in one folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tqdm.auto import tqdm

from flowbert.encoders import check_same_encoder, load_encoder
from flowbert.encoders.files import (
    SETTINGS_FILE,
    WEIGHTS_FILE,
    load_token_weights,
    locate,
    save_token_weights,
)
from flowbert.errors import UserError, choices
from flowbert.io import digest, read_json, write_json
from flowbert.maps import AnyMap, Ranges, load_map, quantize, save_map, steps_of

ENCODER = "encoder.json"
_SCALE = ".int8"
_BLOCK = 16384  # sentences whose tokens are in memory at once


class Model:
    """Sentence embeddings of a frozen encoder after a fitted map.

    Args:
        encoder: The encoder; None for a map that was fitted on vectors.
        map: The fitted map, or a pipeline of maps; None for the embeddings as they are.
        scale: Ranges that int8 vectors are scaled by.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> model = Model(SentenceEncoder("builtin-sample"))
        >>> model.encode(["A man rides a horse."]).shape
        (1, 128)
    """

    def __init__(
        self, encoder: Any, map: AnyMap | None = None, scale: Ranges | None = None
    ) -> None:
        self.encoder = encoder
        self.map = map
        self.scale = scale

    @property
    def map_name(self) -> str:
        """Name of the map in files: ``flow``, ``whitening``, or ``raw``."""
        steps = [] if self.map is None else steps_of(self.map)
        return "+".join(step.name for step in steps) or "raw"

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        precision: str = "float32",
    ) -> Any:
        """Embed sentences; the arguments are those of sentence-transformers.

        Args:
            sentences: One sentence or several.
            batch_size: Sentences that are encoded at once; None for 16384.
            show_progress_bar: Show a bar.
            convert_to_tensor: Return a tensor on the encoder's device.
            normalize_embeddings: Scale vectors to length 1.
            truncate_dim: Keep the first dimensions.
            precision: ``float32``, ``int8`` or ``binary``, see :func:`flowbert.maps.quantize`.

        Returns:
            Vectors ``(N, k)``, or ``(k,)`` for a single sentence.

        Raises:
            UserError: If there is no sentence.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if not texts:
            raise UserError("sentences: received none; expected at least one")
        size = batch_size or _BLOCK
        blocks = []
        for start in tqdm(range(0, len(texts), size), disable=not show_progress_bar):
            rows = self.encoder.encode(texts[start : start + size])
            blocks.append(self.transform(rows))
        vectors = np.concatenate(blocks)
        if truncate_dim is not None:
            vectors = vectors[:, :truncate_dim]
        if normalize_embeddings:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        scale = None if self.scale is None else self.scale.first(vectors.shape[1])
        result: Any = quantize(vectors, precision, scale)
        if convert_to_tensor:
            result = torch.from_numpy(result).to(getattr(self.encoder, "device", "cpu"))
        return result[0] if isinstance(sentences, str) else result

    def transform(self, rows: Any) -> Any:
        """Map vectors of the encoder, ``(N, D)``, to ``(N, k)``, float32."""
        rows = np.asarray(rows, dtype=np.float32)
        return rows if self.map is None else self.map.transform(rows)

    def save(self, folder: str | Path) -> None:
        """Write the map and which encoder it belongs to; several maps may share a folder."""
        folder = Path(folder)
        if self.map is not None:
            save_map(self.map, folder / f"{self.map_name}.safetensors")
        if self.scale is not None:
            self.scale.save(folder / f"{self.map_name}{_SCALE}")
        content: dict[str, Any] = {"encoder": {}, "identity": {}}
        if self.encoder is not None:
            content["encoder"] = self.encoder.describe()
            content["identity"] = self.encoder.identity
            save_token_weights(folder, getattr(self.encoder, "token_weights", None))
        write_json(folder / ENCODER, content | {"digest": digest(content)})

    @classmethod
    def load(
        cls, path: str | Path, method: str | None = None, *, encoder: str | None = None
    ) -> Self:
        """Load what ``fit`` saved, or an encoder as it is.

        Args:
            path: A run folder, its folder ``model``, an encoder, or the hub name of one of these.
            method: The map, ``raw`` for none; None for the flow, or the only map.
            encoder: Where the encoder lies now, if it has moved.

        Raises:
            UserError: If there is no such model or map, a file is damaged, or the encoder is
                another one than the map was fitted on.
        """
        folder, own_encoder = _find(str(path))
        if folder is None:
            if method not in (None, "raw"):
                raise UserError(
                    f"method: received {method!r}; {path} is an encoder without maps"
                )
            return cls(load_encoder(str(encoder or path)))
        content = read_json(
            folder / ENCODER, {"encoder": dict, "identity": dict, "digest": str}
        )
        expected = content.pop("digest")
        if digest(content) != expected:
            raise UserError(f"{folder / ENCODER}: damaged, or changed by hand")
        if not content["encoder"]:
            raise UserError(
                f"model: {path} was fitted on vectors; expected vectors, not sentences"
            )
        fitted, scale = load_fitted(folder, method)
        settings = content["encoder"] | {"token_weights": load_token_weights(folder)}
        moved = {"path": encoder, "revision": None} if encoder else own_encoder
        opened = load_encoder(**settings | moved)
        check_same_encoder(content["identity"], opened.identity, f"model in {path}")
        return cls(opened, fitted, scale)

    def export(self, to: str | Path, **options: Any) -> Any:
        """Export the model, see :func:`flowbert.export`."""
        from flowbert.exports import export

        return export(self, to, **options)


def _find(path: str) -> tuple[Path | None, dict[str, Any]]:
    """The model folder, here or on the hub, and the encoder that an export holds beside it."""
    folder = model_folder(path)
    encoder: dict[str, Any] = {}
    if folder is not None:
        encoder = {"path": str(folder.parent), "revision": None}
    elif "/" in path and not Path(path).expanduser().exists():
        files = locate(path)
        folder = model_folder(files.folder)
        encoder = {"path": files.source, "revision": files.revision}
    exported = folder is not None and (folder.parent / SETTINGS_FILE).is_file()
    return folder, encoder if exported else {}


def model_folder(path: str | Path) -> Path | None:
    """Folder with the maps of a run or an exported model; None for an encoder as it is."""
    for folder in (Path(path).expanduser() / "model", Path(path).expanduser()):
        if os.path.isfile(folder / ENCODER):  # False for a text too long for a path
            return folder
    return None


def find_model(path: str | Path) -> Path:
    """The model folder of a path.

    Raises:
        UserError: If it holds no fitted maps.
    """
    folder = model_folder(path)
    if folder is None:
        raise UserError(
            f"model: received {path}; expected the folder of a finished fit"
        )
    return folder


def load_fitted(
    folder: Path, method: str | None = None
) -> tuple[AnyMap | None, Ranges | None]:
    """A map of a model folder (None for ``raw``) and the scale of its int8 vectors, if saved.

    Args:
        folder: The model folder.
        method: The map; None for the flow, or the only map.

    Raises:
        UserError: If there is none of this name, or a file is damaged.
    """
    files = sorted(folder.glob("*.safetensors"))
    saved = [file.stem for file in files if file.name != WEIGHTS_FILE]
    name = method or ("flow" if "flow" in saved else (saved or ["raw"])[0])
    if name not in ("raw", *saved):
        raise UserError(f"method: received {name!r}; {choices(['raw', *saved], name)}")
    scale = folder / f"{name}{_SCALE}"
    return (
        None if name == "raw" else load_map(folder / f"{name}.safetensors"),
        Ranges.load(scale) if scale.is_file() else None,
    )
