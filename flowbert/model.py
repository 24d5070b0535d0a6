"""A model: an encoder and a fitted map, used by one call and saved in one folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from flowbert.data.text_files import user_path
from flowbert.encoders import (
    Embedder,
    check_same_encoder,
    encode_counted,
    load_encoder,
    open_encoder,
)
from flowbert.encoders.folders import (
    MODEL_FILE,
    SAMPLE,
    SETTINGS_FILE,
    load_token_weights,
    locate,
    map_files,
    save_token_weights,
)
from flowbert.errors import UserError, check_choice
from flowbert.io import digest, folders_with, read_json, write_json
from flowbert.registry import imports_refused

if TYPE_CHECKING:
    from flowbert.maps import Map

# The encoder's path relative to the model folder, and absolute.
_ENCODER_PATHS = "places"


class Model(Embedder):
    """Sentence embeddings of a frozen encoder after a fitted map.

    A pickled model contains the weights of its encoder, so that Ray, joblib and multiprocessing
    can send it to machines without its folder. It gives the same vectors there, bit for bit on
    equal processors; custom classes must be importable. :meth:`save` writes files without pickle.

    Args:
        encoder: The encoder: an object, its path, or what else ``compare`` takes as its encoder;
            None for a map that was fitted on vectors.
        map: The fitted map, a pipeline of maps and transformers of scikit-learn, or a trained
            :class:`flowbert.methods.FlowModule`; None for the embeddings without a map.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> model = Model(SentenceEncoder("builtin-sample"))
        >>> model.encode(["A man rides a horse."]).shape
        (1, 128)
    """

    path = "Model"
    is_on_disk = False

    def __init__(self, encoder: Any, map: Any = None) -> None:
        self.encoder: Any = None if encoder is None else open_encoder(encoder)
        self.map = map
        if map is not None:
            from flowbert.maps import as_map  # slow to import

            self.map = as_map(map)

    def __repr__(self) -> str:
        return f"Model({self.encoder}, {self.map})"

    @property
    def map_name(self) -> str:
        """Name of the map in files: ``flow``, ``whitening``, or ``raw``."""
        return "raw" if self.map is None else self.map.name

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Size k of a vector."""
        size: int = self._with_encoder().dim
        return int(self.transform(np.zeros((1, size))).shape[1])

    @property
    def digest(self) -> str:
        """Digest of the identity of the encoder and of the map, which determine the vectors."""
        state = None
        if self.map is not None:
            from flowbert.maps.state import digest_state

            state = digest_state(self.map.get_state())
        return digest(self.encoder.identity, state)

    def embed(
        self, sentences: Sequence[str], on_batch: Callable[[int], Any] | None = None
    ) -> Any:
        """Vectors of a list of N sentences: ``(N, k)``, float32."""
        rows = encode_counted([self._with_encoder()], sentences, on_batch)[0]
        return self.transform(rows)

    @property
    def identity(self) -> dict[str, Any]:
        """Digest of the model, as an encoder that is compared."""
        return {"model": self.digest}

    @property
    def device(self) -> torch.device:
        """Device of the encoder."""
        return torch.device(getattr(self.encoder, "device", "cpu"))

    def to(self, *args: Any, **options: Any) -> Self:
        """Move the encoder to a device, if it can; a map computes on the device of its rows."""
        encoder = self._with_encoder()
        if hasattr(encoder, "to"):
            encoder.to(*args, **options)
        return self

    def _with_encoder(self) -> Any:
        """The encoder.

        Raises:
            UserError: If the model has no encoder.
        """
        if self.encoder is None:
            raise UserError(
                "missing; sentences require one (transform maps vectors)",
                argument="encoder",
            )
        return self.encoder

    def transform(self, rows: Any) -> Any:
        """Map vectors of the encoder, ``(N, D)``, to ``(N, k)``, float32."""
        rows = np.asarray(rows, dtype=np.float32)
        return rows if self.map is None else self.map.transform(rows)

    def save(self, folder: str | Path) -> None:
        """Write the map, and a reference to its encoder; maps of one encoder may share a folder.

        Raises:
            UserError: If the folder holds a model of another encoder, or the encoder is a
                SentenceTransformer object without a known folder, or not frozen.
        """
        folder = user_path(folder)
        is_on_disk = getattr(self.encoder, "is_on_disk", True)
        if not (is_on_disk or _is_exported(folder)):
            raise UserError(
                "received an object in memory; expected the path of an encoder, which save "
                "writes of a trained one",
                argument="encoder",
            )
        content = _encoder_content(self.encoder, folder)
        identity = digest(content["identity"])
        is_model = (folder / MODEL_FILE).is_file()
        if is_model and digest(_read_encoder(folder)["identity"]) != identity:
            raise UserError(
                f"received {folder}, which holds a model of another encoder; expected a new "
                "folder",
                argument="folder",
            )
        # First what may be impossible to save.
        if self.map is not None:
            from flowbert.maps import save_map

            save_map(self.map, folder / f"{self.map_name}.safetensors", identity)
        save_token_weights(folder, getattr(self.encoder, "token_weights", None))
        write_json(folder / MODEL_FILE, content | {"digest": digest(content)})

    @classmethod
    def load(
        cls, path: str | Path, method: str | None = None, *, encoder: str | None = None
    ) -> Self:
        """Load a model that ``fit`` or :meth:`save` wrote, or an encoder without a map.

        The encoder is searched for at its path, at its path relative to the model (so that both can
        be moved together), and at its absolute path; its identity must be the same.

        Args:
            path: A run folder, its folder ``model``, an encoder, or the hub name of one of these.
            method: Name of the map; ``raw`` for no map; None for the flow, or the only map.
            encoder: New path of the encoder, if it was moved.

        Raises:
            UserError: If model or map does not exist, a file is damaged, or the map was fitted on
                another encoder.
        """
        folder, own_encoder = _find(str(path))
        if folder is None:
            if method not in (None, "raw"):
                raise UserError(
                    f"received {method!r}; {path} is an encoder without maps",
                    argument="method",
                )
            return cls(load_encoder(str(path)))
        content = _read_encoder(folder)
        if not content["encoder"]:
            raise UserError(
                f"{path} was fitted on vectors; expected vectors, not sentences",
                argument="model",
            )
        fitted = load_fitted(folder, method)
        moved = {"path": encoder, "revision": None} if encoder else own_encoder
        try:
            return cls(_open_encoder(folder, content, moved), fitted)
        except UserError as error:
            if moved:
                raise
            reason = str(error).removeprefix("encoder: ")
            raise UserError(
                f"{reason}; if it was moved, name its folder: "
                f"Model.load({str(path)!r}, encoder=FOLDER), or the option encoder",
                argument="encoder",
            ) from error


def _encoder_content(encoder: Any, folder: Path) -> dict[str, Any]:
    """Description and identity of an encoder, for a model folder."""
    if encoder is None:
        return {"encoder": {}, "identity": {}}
    described = encoder.describe()
    path = user_path(encoder.path)
    is_name = encoder.path == SAMPLE or described.get("revision") is not None
    # An export holds its encoder.
    if path.exists() and not (is_name or _is_exported(folder)):
        relative = os.path.relpath(path.resolve(), folder.resolve())
        described[_ENCODER_PATHS] = [relative, os.path.abspath(path)]
    return {"encoder": described, "identity": encoder.identity}


def _open_encoder(
    folder: Path, content: dict[str, Any], moved: Mapping[str, Any]
) -> Any:
    """Open the encoder of a model folder: by its path, relative to the folder, or absolute.

    Args:
        folder: The model folder.
        content: Its description and identity.
        moved: New path of the encoder, if it was moved.

    Raises:
        UserError: If it is not found, cannot be loaded, or is another encoder.
    """
    settings = content["encoder"] | moved
    places = settings.pop(_ENCODER_PATHS, [])
    if places and not moved:
        absolute = [os.path.normpath(folder.resolve() / path) for path in places]
        # First as it was typed, so that tables name it as before.
        paths = dict.fromkeys([settings["path"], *absolute])
        existing = [path for path in paths if os.path.exists(user_path(path))]
        if not existing:
            raise UserError(
                f"there is no {' and no '.join(paths)}, the encoder of the model",
                argument="encoder",
            )
        settings["path"] = existing[0]
    with imports_refused():  # of a pooling
        opened = load_encoder(**settings, token_weights=load_token_weights(folder))
    check_same_encoder(content["identity"], opened.identity, f"model in {folder}")
    return opened


def _read_encoder(folder: Path) -> dict[str, Any]:
    """Description and identity of the encoder of a model folder."""
    content: dict[str, Any] = read_json(
        folder / MODEL_FILE, {"encoder": dict, "identity": dict, "digest": str}
    )
    expected = content.pop("digest")
    if digest(content) != expected:
        raise UserError(f"{folder / MODEL_FILE}: damaged, or changed by hand")
    return content


def _find(path: str) -> tuple[Path | None, dict[str, Any]]:
    """The model folder, local or of the hub, and the encoder of an export."""
    folder = model_folder(path)
    encoder: dict[str, Any] = {}
    if folder is not None:
        encoder = {"path": str(folder.parent), "revision": None}
    elif os.path.isdir(user_path(path)):
        _refuse_parent(path)
    elif not os.path.exists(user_path(path)):
        files = locate(path, argument="model")
        folder = model_folder(files.folder)
        encoder = {"path": files.source, "revision": files.revision}
    return folder, encoder if folder is not None and _is_exported(folder) else {}


def _is_exported(folder: Path) -> bool:
    """Whether a model folder is in an export, which holds the encoder."""
    return (folder.parent / SETTINGS_FILE).is_file()


def model_folder(path: str | Path) -> Path | None:
    """Folder with the maps of a run or an exported model; None for an encoder."""
    given = user_path(path)
    for folder in (given / "model", given):
        if os.path.isfile(folder / MODEL_FILE):  # False for a text too long for a path
            return folder
    return None


def _refuse_parent(path: str) -> None:
    """Raise a UserError for a folder that holds runs or models."""
    folder = user_path(path)
    models = folders_with(folder, f"model/{MODEL_FILE}")
    models = models or folders_with(folder, MODEL_FILE)
    if models:
        raise UserError(
            argument="model", received=path, expected=f"one of {', '.join(models)}"
        )


def load_fitted(path: str | Path, method: str | None = None) -> "Map | None":
    """A map of a model folder; None for ``raw``.

    Args:
        path: A run folder, or its model folder.
        method: The map; None for the flow, or the only map.

    Raises:
        UserError: If model or map does not exist, or a file is damaged or belongs to another
            encoder or map.
    """
    from flowbert.maps import load_map

    folder = model_folder(path)
    if folder is None:
        _refuse_parent(str(path))
        raise UserError(
            f"received {path}; expected the folder of a finished fit", argument="model"
        )
    saved = [file.stem for file in map_files(folder)]
    name = method
    if name is None and "flow" not in saved and len(saved) > 1:
        raise UserError(
            f"received none; expected one of {', '.join(saved)}", argument="method"
        )
    if name is None:
        name = "flow" if "flow" in saved else (saved or ["raw"])[0]
    elif name not in ("raw", *saved):
        # Tables name a map with its parameters.
        named = {load_map(folder / f"{stem}.safetensors").text: stem for stem in saved}
        name = named.get(name, name)
    check_choice("method", name, ["raw", *saved])
    if name == "raw":
        return None
    identity = digest(_read_encoder(folder)["identity"])
    return load_map(folder / f"{name}.safetensors", identity)
