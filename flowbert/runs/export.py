"""A fitted model as a folder that other programs open, checked before it is there."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flowbert import __version__
from flowbert.calibration import Calibration
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import UserError, choices
from flowbert.evaluation.results import Row, load_results
from flowbert.exports.card import base_model, model_card
from flowbert.exports.check import check_folder
from flowbert.exports.folder import has_native_form, write_folder
from flowbert.exports.onnx_model import check_onnx, check_packages, quantize, write_onnx
from flowbert.exports.push import Destination, find_destination, push_folder
from flowbert.flows import Glow, save_flow
from flowbert.io.atomic import folder_written_atomically
from flowbert.io.run_folder import RunFolder
from flowbert.methods.chain import Chain
from flowbert.methods.embedder import Embedder, load, save_encoder
from flowbert.progress import progress


class Export(NamedTuple):
    """What was written.

    Attributes:
        folder: The folder.
        difference: Largest difference of a cosine from the model's own; None without a check.
        floats: Numbers in the layers of the map; None without one.
        url: Where it was pushed to; None if it was not.
        note: What the user should know of the repository; empty if nothing.
    """

    folder: Path
    difference: float | None
    floats: int | None
    url: str | None = None
    note: str = ""


def export(
    model: str | Path | Embedder,
    to: str | Path,
    *,
    format: str = "sentence-transformers",
    method: str | None = None,
    path: str | None = None,
    check: bool = True,
    results: str | Path | None = None,
    license: str | None = None,
    name: str | None = None,
    push: str | None = None,
    private: bool = True,
) -> Export:
    """Write a fitted model as a folder that opens without this package, and compare its vectors before saying so.

    A sentence-transformers folder has stock modules only: layers mixed by ``WeightedLayerPooling``, token weights as
    ``WordWeights``, a calibration as one ``Dense``, an additive flow as a few. It also holds the native map, so that
    :func:`flowbert.load` takes it. ONNX is one graph from token numbers to embeddings. Both have a README.md for the
    hub.

    Args:
        model: A run folder, its name on the hub, or an :class:`flowbert.methods.Embedder`.
        to: The folder to write, which is not there yet.
        format: sentence-transformers, onnx (model.onnx and tokenizer.json), or onnx-int8 (the encoder's weights in 8
            bits, a quarter of the size).
        method: Map of the run: flow, whitening or raw; default: the flow if there is one, else the only map.
        path: Where the encoder is now, if it was moved.
        check: Compare the vectors of 256 sentences: a folder in a process without this package, ONNX in onnxruntime.
        results: A results.json whose figures the README shows; default: that of the run.
        license: License for the README's metadata, as the hub names it.
        name: Name for the README; default: where it is pushed to, else the folder.
        push: Repository on the hub to upload the folder to, owner/name, with the token of HF_TOKEN or `hf auth login`.
        private: Whether a new repository is private; one that exists stays as it is.

    Returns:
        What was written.

    Raises:
        UserError: If the format cannot express the model, the vectors differ, a file is in the way, or the hub refuses.

    Example:
        >>> import tempfile
        >>> from flowbert import SentenceEncoder, Whitening
        >>> from flowbert.methods import Embedder
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample")
        >>> whitening = Whitening(shrinkage=0.5).fit(encoder.encode(["a dog runs", "a cat", "two men", "the sun"]))
        >>> made = export(Embedder(encoder, whitening), tempfile.mkdtemp() + "/mine")
        >>> made.difference < 1e-5, (made.folder / "modules.json").is_file()
        (True, True)
    """
    if format not in FORMATS:
        raise UserError(f"format: received {format!r}; {choices(FORMATS, format)}")
    if format.startswith("onnx"):
        check_packages()
    to = Path(to)
    if to.exists():
        raise UserError(f"to: {to} is there already; allowed: a new folder")
    destination = None if push is None else find_destination(push, private)  # before minutes of work
    embedder = model if isinstance(model, Embedder) else load(model, method, path=path)
    rows = _rows(model, results)
    shown = name_of_map(embedder)
    with progress(None, f"Exporting {format}"), folder_written_atomically(to) as folder:
        difference, floats = FORMATS[format](folder, embedder, check)
        told = name or push or str(to)
        card = model_card(embedder, format=format, method=shown, name=told, rows=rows, license=license)
        (folder / "README.md").write_text(card, encoding="utf-8")
    made = Export(to, difference, floats)
    return made if destination is None else _pushed(made, destination, f"{shown}, by flowbert {__version__}")


def _pushed(made: Export, destination: Destination, message: str) -> Export:
    try:
        url = push_folder(made.folder, destination, message)
    except UserError as error:
        again = f"`hf upload {destination.name} {made.folder}` sends it"
        raise UserError(f"{error}; {made.folder} is written, and {again}") from None
    return made._replace(url=url, note=destination.note)


def name_of_map(model: Embedder) -> str:
    """``flow``, the name of a calibration, names joined by ``+`` for a chain, or ``raw``."""
    if model.fitted is None:
        return "raw"
    steps = model.fitted.steps if isinstance(model.fitted, Chain) else [model.fitted]
    return "+".join(getattr(step, "method", "flow") for step in steps)


def _sentence_transformers(folder: Path, model: Embedder, check: bool) -> tuple[float | None, int | None]:
    native = has_native_form(model)
    compiled = write_folder(folder, model.encoder, model.fitted, settings=native)
    difference = check_folder(folder, model) if check else None
    if native:
        _write_native(folder, model, name_of_map(model))
    return difference, None if compiled is None else compiled.floats


def _onnx(folder: Path, model: Embedder, check: bool) -> tuple[float | None, int | None]:
    write_onnx(folder, model)
    return check_onnx(folder, model) if check else None, None


def _onnx_int8(folder: Path, model: Embedder, check: bool) -> tuple[float | None, int | None]:
    _onnx(folder, model, check)
    quantize(folder)
    return check_onnx(folder, model, allowed=math.inf) if check else None, None  # its cost is not an error


FORMATS: dict[str, Callable[[Path, Embedder, bool], tuple[float | None, int | None]]] = {
    "sentence-transformers": _sentence_transformers,
    "onnx": _onnx,
    "onnx-int8": _onnx_int8,
}
"""Format -> what writes it into an empty folder and compares: the largest difference, and numbers in dense layers."""


def _rows(model: str | Path | Embedder, results: str | Path | None) -> list[Row]:
    if results is None and not isinstance(model, Embedder):
        own = (RunFolder(model) if str(model) == SAMPLE_PATH else RunFolder.find(model)).results
        results = own if own.is_file() else None
    return [] if results is None else load_results(results)[0]


def _write_native(folder: Path, model: Embedder, name: str) -> None:
    """The map as it is, and the encoder under a name that says nothing of this machine."""
    run, encoder = RunFolder(folder), model.encoder
    if isinstance(model.fitted, Glow):
        save_flow(model.fitted, run.fitted_map(name))
    elif isinstance(model.fitted, Calibration):
        model.fitted.save(run.fitted_map(name))
    if model.scale is not None:
        model.scale.save(run.scale(name))
    path, encoder.path = encoder.path, base_model(model)
    try:
        save_encoder(run.model, encoder)
    finally:
        encoder.path = path
