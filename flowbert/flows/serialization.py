"""A flow on disk: one safetensors file that holds the tensors, the constructor's arguments and free metadata."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from flowbert.atomic import written_atomically
from flowbert.errors import UserError
from flowbert.flows.glow import Glow

FILE_NAME = "flow.safetensors"
FORMAT = "flowbert-flow-1"


def save_flow(flow: Glow, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
    """Write a flow to ``path``, or to ``flow.safetensors`` in it where it does not end in ``.safetensors``.

    The file appears under its name only when it is complete.

    Args:
        flow: The flow.
        path: File or folder; missing folders are made.
        metadata: JSON values to keep beside the flow, such as the encoder it belongs to.

    Returns:
        The file written.

    Example:
        >>> import tempfile
        >>> from flowbert.flows import Glow, load_flow, save_flow
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = save_flow(Glow(8, levels=1), folder, {"encoder": "some name"})
        ...     flow, metadata = load_flow(folder)
        >>> file.name, flow.config["levels"], metadata
        ('flow.safetensors', 1, {'encoder': 'some name'})
    """
    file = _file(path)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in flow.state_dict().items()}
    header = {"format": FORMAT, "config": json.dumps(flow.config), "metadata": json.dumps(dict(metadata or {}))}
    with written_atomically(file) as temporary:
        save_file(tensors, temporary, header)
    return file


def load_flow(path: str | Path) -> tuple[Glow, dict[str, Any]]:
    """Read a flow written by :func:`save_flow`.

    Args:
        path: The file, or the folder that holds ``flow.safetensors``.

    Returns:
        The flow in eval mode on the CPU, in the dtype it was saved in, and the metadata.

    Raises:
        UserError: If the file is missing, is not a flow, or its tensors do not fit its configuration.
    """
    file = _file(path)
    if not file.is_file():
        raise UserError(f"{file}: no such file; allowed: a flow saved as {FILE_NAME}, or the folder that holds one")
    header, tensors = _read(file)
    if header.get("format") != FORMAT:
        raise UserError(f"{file}: format {header.get('format')!r} is not a flow of this program, allowed: {FORMAT!r}")
    try:
        flow = Glow(**json.loads(header["config"]))
        flow.to(next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()))
        flow.load_state_dict(tensors)
        metadata: dict[str, Any] = json.loads(header["metadata"])
    except (KeyError, TypeError, ValueError, RuntimeError, StopIteration) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: the flow in it is damaged or of another version: {reason}") from error
    return flow.eval(), metadata


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".safetensors" else path / FILE_NAME


def _read(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as reader:
            return reader.metadata() or {}, {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{file}: not a readable safetensors file: {error}") from error
