"""A frozen encoder and a fitted map behind one call: sentences in, vectors out."""

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flowbert.calibration import Calibration
from flowbert.encoders import SentenceEncoder, check_same_encoder
from flowbert.encoders.identity import is_vectors
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.encoders.settings import settings_of
from flowbert.encoders.token_counts import TokenCounts
from flowbert.errors import FlowbertWarning, UserError, choices
from flowbert.flows import Glow, load_flow
from flowbert.io.atomic import written_atomically
from flowbert.io.digest import digest_json
from flowbert.io.json_file import read_json
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import Transform
from flowbert.methods.chain import Chain
from flowbert.progress import progress, shown
from flowbert.vectors import Ranges, VectorTable, check_precision, quantize, warn_of_own_scale

FLOW = "flow"  # name of the map that is no closed form
Fitted = Calibration | Chain | Glow
"""A fitted map of embeddings."""

_BLOCK = 16384  # sentences
_DIGEST = "digest"  # entry of the file that names the encoder: that of all the others


class Embedder:
    """Sentence embeddings of a frozen encoder after a fitted map.

    Args:
        encoder: The encoder.
        fitted: The map; None for raw embeddings.
        scale: The ranges that int8 vectors are scaled by; default: those of the sentences that are encoded together.
    """

    def __init__(self, encoder: SentenceEncoder, fitted: Fitted | None = None, scale: Ranges | None = None):
        self.encoder = encoder
        self.fitted = fitted
        self.scale = scale

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        precision: str = "float32",
    ) -> Any:
        """Embed sentences in their order, with the arguments that sentence-transformers has; compare them by cosine.

        Args:
            sentences: N sentences, or one.
            batch_size: Sentences per batch; default: as many as fit the device well.
            show_progress_bar: Whether to show one; default: as :func:`flowbert.progress.shown` says.
            convert_to_tensor: Give a tensor on the encoder's device in place of an array.
            normalize_embeddings: Scale every vector to length 1, after the cut.
            truncate_dim: Keep the first dimensions; those of whitening are sorted by variance.
            precision: ``float32``, ``int8`` or ``binary``, see :func:`flowbert.vectors.quantize`; the scale of int8 is
                that of the fit, which is not one of normalized vectors.

        Returns:
            Shape ``(N, k)``, or ``(k,)`` for one sentence that is not in a list; float32, int8, or uint8 with the bits
            of ``binary``, eight dimensions to a number.

        Raises:
            UserError: If there is no sentence, or a number is out of range.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if not texts:
            raise UserError("sentences: received no sentence; allowed: at least one")
        for name, value in (("batch_size", batch_size), ("truncate_dim", truncate_dim)):
            if value is not None and value < 1:
                raise UserError(f"{name}: received {value}; allowed: a whole number of at least 1")
        check_precision(precision)
        if precision == "int8" and normalize_embeddings:
            raise UserError("normalize_embeddings: received True with precision int8; allowed: with float32 and binary")
        with shown(show_progress_bar), progress(len(texts), "Encoding", "sentences") as step:
            # In blocks, so that the tokens of a large corpus are never in memory at once.
            blocks = [texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK)]
            vectors = torch.cat([self._mapped(self._raw(block, batch_size, step.update)) for block in blocks])
        if truncate_dim is not None:
            vectors = vectors[:, :truncate_dim]
        if normalize_embeddings:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        if precision != "float32":
            scale = None if self.scale is None else self.scale.first(vectors.shape[1])
            if precision == "int8" and scale is None:
                warn_of_own_scale(len(texts))
            vectors = torch.from_numpy(quantize(vectors.numpy(), precision, scale))
        result = vectors.to(self.encoder.device) if convert_to_tensor else vectors.numpy()
        return result[0] if isinstance(sentences, str) else result

    def _raw(
        self, texts: Sequence[str], batch_size: int | None, on_batch: Callable[[int], Any]
    ) -> npt.NDArray[np.float32]:
        if batch_size is None:
            return self.encoder.encode(texts, on_batch=on_batch)
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]), reverse=True)
        result = np.empty((len(texts), self.encoder.dim), dtype=np.float32)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            result[batch] = self.encoder.encode([texts[i] for i in batch], batch_tokens=sys.maxsize, on_batch=on_batch)
        return result

    def _mapped(self, embeddings: npt.NDArray[np.float32]) -> Tensor:
        rows = torch.from_numpy(embeddings)
        if self.fitted is None:
            return rows
        # Where the encoder computes, the map does too.
        return transform_of(self.fitted)(rows.to(self.encoder.device)).cpu()


def transform_of(fitted: Fitted) -> Transform:
    """A fitted map as a function of rows."""
    if isinstance(fitted, Glow):
        return lambda rows: fitted.to(rows.device).latents(rows)
    return fitted.transform


def load(model: str | Path, method: str | None = None, *, path: str | None = None) -> Embedder:
    """Load what a ``fit`` run saved, an exported model, or an encoder as it is.

    Args:
        model: A run folder, an exported folder, the name of one on the hub, or whatever
            :meth:`flowbert.encoders.SentenceEncoder.from_pretrained` takes, which has no map.
        method: ``raw``, or a map saved there (``flow``, ``whitening``); default: the one that an export was made with,
            else the flow, the only map, or raw.
        path: Where the encoder is now, if it was moved; its weights must be the same.

    Raises:
        UserError: If there is no such model or map, or the encoder there has other weights than in the fit.

    Example:
        >>> import tempfile
        >>> import flowbert
        >>> encoder = flowbert.SentenceEncoder.from_pretrained("builtin-sample")
        >>> whitening = flowbert.Whitening(n_components=8).fit(encoder.encode(flowbert.load_task("SAMPLE").sentences()))
        >>> with tempfile.TemporaryDirectory() as run_dir:  # as `fit` leaves it
        ...     file = whitening.save(f"{run_dir}/model/whitening.safetensors")
        ...     save_encoder(file.parent, encoder)
        ...     flowbert.load(run_dir).encode(["a dog runs", "the cat sleeps"]).shape
        (2, 8)
    """
    run = RunFolder(model) if str(model) == SAMPLE_PATH else RunFolder.find(model)
    encoder_alone = str(model) == SAMPLE_PATH or run.encoder.is_dir() or (run.path / "config.json").is_file()
    if encoder_alone and not run.encoder_identity.is_file() and method in (None, "raw"):
        return Embedder(SentenceEncoder.from_pretrained(str(path or model)))
    description = saved_encoder(run.path)
    if is_vectors(description):
        check_same_encoder(description, {}, f"model in {model}")
    method = method or default_method(run)
    fitted = None if method == "raw" else sound_map(run, method)
    settings = settings_of(description)
    if path is None and (run.path / "config.json").is_file():  # an exported model brings its encoder along
        path = str(run.path)
    if path is not None:
        settings |= {"path": path, "revision": None}  # a copy of it; its weights are compared below
    counts = TokenCounts.load(run.token_counts) if run.token_counts.is_file() else None
    encoder = SentenceEncoder.from_pretrained(**settings, counts=counts)
    check_same_encoder(description, encoder.key(), f"model in {model}")
    return Embedder(encoder, fitted, saved_scale(run, method))


def default_method(run: RunFolder) -> str:
    """The map of a run folder where none is named: the flow, or the only one."""
    saved = run.fitted_maps()
    return FLOW if FLOW in saved or len(saved) != 1 else saved[0]


def saved_scale(run: RunFolder, method: str) -> Ranges | None:
    """The ranges that int8 vectors under a map of a run folder are scaled by; None if none were saved.

    Raises:
        UserError: If the file is damaged.
    """
    path = run.scale(method)
    return Ranges.load(path) if path.is_file() else None


def sound_map(run: RunFolder, method: str) -> Calibration | Glow:
    """Load one fitted map; a warning says so if its figures mean nothing."""
    fitted, flaw = load_map(run.path, method)
    if flaw is not None:
        warnings.warn(f"{method} in {run.path}: {flaw}", FlowbertWarning, stacklevel=3)
    return fitted


def load_map(run_dir: str | Path, method: str) -> tuple[Calibration | Glow, str | None]:
    """Load one fitted map of a run folder, and why its figures mean nothing, if they do.

    Raises:
        UserError: If the folder holds no map of that name, or its file is damaged.
    """
    run = RunFolder(run_dir)
    saved = run.fitted_maps()
    if not saved:
        raise UserError(f"{run_dir}: no fitted model in {run.model}; allowed: the run folder of a finished `fit`")
    if method not in saved:
        raise UserError(f"method: received {method!r}; {choices(['raw', *saved], method)} in {run_dir}")
    path = run.fitted_map(method)
    if method != FLOW:
        calibration = Calibration.load(path)
        return calibration, calibration.flaw
    flow, metadata = load_flow(path)
    return flow, metadata.get("flaw")


def save_encoder(folder: Path, encoder: SentenceEncoder | VectorTable) -> None:
    """Write which encoder the maps in a folder belong to, and the token counts of its pooling; or which vectors."""
    run = RunFolder(folder.parent)
    if encoder.counts is not None:
        encoder.counts.save(run.token_counts)
    description = encoder.describe() | encoder.key()
    with written_atomically(run.encoder_identity) as temporary:
        text = json.dumps(description | {_DIGEST: digest_json(description)}, indent=2) + "\n"
        temporary.write_text(text, encoding="utf-8")


def saved_encoder(run_dir: str | Path) -> dict[str, Any]:
    """Identity of the encoder that a run's maps belong to.

    Raises:
        UserError: If the folder is not that of a finished fit, or the file in it is damaged.
    """
    path = RunFolder(run_dir).encoder_identity
    if not path.exists():
        missing = path.relative_to(run_dir)
        raise UserError(f"{run_dir}: no {missing}; allowed: the run folder of a finished `fit`")
    description: dict[str, Any] = read_json(path, needed="the file as `fit` wrote it; run `fit` again")
    if description.pop(_DIGEST, None) != digest_json(description):
        raise UserError(f"{path}: damaged, changed by hand, or of an older version (no digest); run `fit` again")
    return description
