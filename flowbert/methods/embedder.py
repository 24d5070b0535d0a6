"""A frozen encoder and a fitted map behind one call: sentences in, vectors out."""

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flowbert.calibration import Calibration
from flowbert.encoders import SentenceEncoder, check_same_encoder
from flowbert.encoders.token_counts import TokenCounts
from flowbert.errors import FlowbertWarning, UserError, choices
from flowbert.flows import load_flow
from flowbert.io.atomic import written_atomically
from flowbert.io.digest import digest_json
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import FittedMap, Transform

_BLOCK = 16384  # sentences
_DIGEST = "digest"  # entry of the file that names the encoder: that of all the others
_SETTINGS = ("path", "revision", "layers", "pooling", "max_length", "dtype")


class Embedder:
    """Sentence embeddings of a frozen encoder after a fitted map.

    Args:
        encoder: The encoder.
        transform: Map of raw embeddings ``(N, D)`` to ``(N, k)``; None for raw ones.
    """

    def __init__(self, encoder: SentenceEncoder, transform: Transform | None = None):
        self.encoder = encoder
        self.transform = transform

    def encode(self, sentences: Sequence[str], on_batch: Callable[[int], Any] | None = None) -> npt.NDArray[np.float32]:
        """Embed sentences in their order: ``(N, k)``, float32; compare them by cosine.

        Args:
            sentences: N sentences.
            on_batch: Called with the number of sentences done after each batch.
        """
        if not sentences:
            raise UserError("encode: received no sentence; allowed: at least one")
        # In blocks, so that the tokens of a large corpus are never in memory at once.
        blocks = [sentences[start : start + _BLOCK] for start in range(0, len(sentences), _BLOCK)]
        return np.concatenate([self._encode(block, on_batch) for block in blocks])

    def _encode(self, sentences: Sequence[str], on_batch: Callable[[int], Any] | None) -> npt.NDArray[np.float32]:
        embeddings = self.encoder.encode(sentences, on_batch=on_batch)
        if self.transform is None:
            return embeddings
        # Where the encoder computes, the map does too.
        return self.transform(torch.from_numpy(embeddings).to(self.encoder.device)).cpu().numpy()


def load_embedder(run_dir: str | Path, method: str = "flow", path: str | None = None) -> Embedder:
    """Load what a ``fit`` run saved.

    Args:
        run_dir: The run folder.
        method: ``raw``, or a map saved there (``flow``, ``whitening``).
        path: Where the encoder is now, if it was moved; its weights must be the same.

    Raises:
        UserError: If the folder holds no such map, or the encoder there has other weights than in the fit.

    Example:
        >>> import tempfile
        >>> import flowbert
        >>> encoder = flowbert.SentenceEncoder.from_pretrained("builtin-sample")
        >>> whitening = flowbert.Whitening(n_components=8).fit(encoder.encode(flowbert.load_task("SAMPLE").sentences()))
        >>> with tempfile.TemporaryDirectory() as run_dir:  # as `fit` leaves it
        ...     file = whitening.save(f"{run_dir}/model/whitening.safetensors")
        ...     save_encoder(file.parent, encoder)
        ...     flowbert.load_embedder(run_dir, "whitening").encode(["a dog runs", "the cat sleeps"]).shape
        (2, 8)
    """
    fitted = FittedMap(None) if method == "raw" else load_map(run_dir, method)
    if fitted.flaw is not None:
        warnings.warn(f"{method} in {run_dir}: {fitted.flaw}", FlowbertWarning, stacklevel=2)
    description = saved_encoder(run_dir)
    settings = {name: description[name] for name in _SETTINGS}
    if path is not None:
        settings |= {"path": path, "revision": None}  # a copy of it; its weights are compared below
    file = RunFolder(Path(run_dir)).token_counts
    encoder = SentenceEncoder.from_pretrained(**settings, counts=TokenCounts.load(file) if file.is_file() else None)
    check_same_encoder(description, encoder.key(), f"model in {run_dir}")
    return Embedder(encoder, fitted.transform)


def load_map(run_dir: str | Path, method: str) -> FittedMap:
    """Load one fitted map of a run folder.

    Raises:
        UserError: If the folder holds no map of that name, or its file is damaged.
    """
    run = RunFolder(Path(run_dir))
    saved = run.fitted_maps()
    if not saved:
        raise UserError(f"{run_dir}: no fitted model in {run.model}; allowed: the run folder of a finished `fit`")
    if method not in saved:
        raise UserError(f"method: received {method!r}; {choices(['raw', *saved], method)} in {run_dir}")
    path = run.fitted_map(method)
    if method != "flow":
        calibration = Calibration.load(path)
        return FittedMap(calibration.transform, calibration.flaw)
    flow, metadata = load_flow(path)
    return FittedMap(lambda embeddings: flow.to(embeddings.device).latents(embeddings), metadata.get("flaw"))


def save_encoder(folder: Path, encoder: SentenceEncoder) -> None:
    """Write which encoder the maps in a folder belong to, and the token counts of its pooling."""
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
    path = RunFolder(Path(run_dir)).encoder_identity
    try:
        description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        intact = description.pop(_DIGEST, None) == digest_json(description)
    except FileNotFoundError:
        missing = path.relative_to(run_dir)
        raise UserError(f"{run_dir}: no {missing}; allowed: the run folder of a finished `fit`") from None
    except (ValueError, AttributeError, TypeError, RecursionError):
        intact = False
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not intact:
        raise UserError(f"{path}: damaged, changed by hand, or of an older version (no digest); run `fit` again")
    return description
