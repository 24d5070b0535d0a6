"""Maps that others' code fitted, as a run folder: from there they are used like those of a ``fit``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.calibration import GivenMap
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.flows import Glow, save_flow
from flowbert.flows.bertflow import FILE_NAME, read_bertflow
from flowbert.io.run_folder import RunFolder, run_folder_shared
from flowbert.methods.embedder import FLOW, save_encoder

_WHITENING = "whitening"
_TORCH_FILES = (".bin", ".pt", ".pth")
_BERTFLOW = {  # pooling in the config.json beside its flow; its "first" layer is the embedding layer
    "mean": {"layers": "last", "pooling": "mean"},
    "cls": {"layers": "last", "pooling": "cls"},
    "max": {"layers": "last", "pooling": "max"},
    "first-last-avg": {"layers": "embedding_last", "pooling": "mean"},
}


def import_model(
    source: str | Path, encoder: Mapping[str, Any], run_dir: str | Path | None = None, *, scale: float = 1.0
) -> Path:
    """Make a run folder of a map that was fitted elsewhere, which ``encode``, ``export`` and ``evaluate`` take.

    Args:
        source: The flow of pytorch-bertflow (``glow.bin``, or the folder that it saved), or kernel and bias of
            BERT-whitening (an ``.npz`` file, or a folder with ``kernel.npy`` and ``bias.npy``).
        encoder: Arguments of :meth:`flowbert.encoders.SentenceEncoder.from_pretrained`. Layers and pooling must be
            those that the map was fitted on; only a folder of pytorch-bertflow says which.
        run_dir: The folder to make; default: ``runs/imported/<time>``.
        scale: How much longer than ours the vectors were that a whitening was fitted on: 2 for ``first_last_avg`` and
            ``last2avg`` of BERT-whitening-pytorch, which add two layers in place of averaging them.

    Returns:
        The run folder.

    Raises:
        UserError: If the file cannot be read, layers or pooling are not told, the map is of another size than the
            encoder's embeddings, or there is a model in the folder.

    Example:
        >>> import tempfile
        >>> import flowbert, numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> np.savez(f"{folder}/whitening.npz", kernel=np.eye(128)[:, :32], bias=np.zeros((1, 128)))
        >>> encoder = {"path": "builtin-sample", "layers": "first_last", "pooling": "mean"}
        >>> run = import_model(f"{folder}/whitening.npz", encoder, f"{folder}/run")
        >>> flowbert.load(run).encode(["a dog runs"]).shape
        (1, 32)
    """
    source = Path(source)
    fitted = _read(source, scale)
    made = SentenceEncoder.from_pretrained(**_with_layers(source, encoder))
    if made.needs_counts:
        raise UserError(f"pooling: received {made.pooling}, which needs token counts; allowed: one without, or counts")
    if fitted.dim != made.dim:
        raise UserError(
            f"{source}: a map of vectors of size {fitted.dim}; allowed with encoder {made.path}: {made.dim}"
        )
    with run_folder_shared():
        run = RunFolder.choose(run_dir, "imported")
    if run.model.exists():
        raise UserError(f"run_dir: {run.path} holds a model; allowed: another or a new folder")
    if isinstance(fitted, Glow):
        save_flow(fitted, run.fitted_map(FLOW), {"encoder": made.describe() | made.key(), "flaw": None})
    else:
        fitted.save(run.fitted_map(_WHITENING))
    save_encoder(run.model, made)
    return run.path


def _read(source: Path, scale: float) -> Glow | GivenMap:
    is_flow = source.suffix in _TORCH_FILES or (source / FILE_NAME).is_file()
    if scale <= 0 or (is_flow and scale != 1):
        raise UserError(f"scale: received {scale}; allowed: above 0 for kernel and bias, 1 for a flow")
    return read_bertflow(source) if is_flow else GivenMap.read(source, scale)


def _with_layers(source: Path, encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the encoder with layers and pooling, from the file or told."""
    told = {name: value for name, value in encoder.items() if value is not None}
    found = {**_BERTFLOW.get(_pooling_beside(source), {}), **told}
    lacking = [name for name in ("layers", "pooling") if name not in found]
    if lacking:
        raise UserError(
            f"{lacking[0]}: received none, and {source} does not say; needed: what the map was fitted on, such as "
            "layers first_last and pooling mean"
        )
    return found


def _pooling_beside(source: Path) -> str:
    file = (source if source.is_dir() else source.parent) / "config.json"
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["pooling"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
