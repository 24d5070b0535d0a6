"""A flow on disk: one safetensors file that holds the tensors, the constructor's arguments and free metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.errors import UserError
from flowbert.flows.glow import Glow
from flowbert.io.container import read_container, write_container

FILE_NAME = "flow.safetensors"
FORMAT = "flowbert-flow-2"


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
    content = {"config": flow.config, "metadata": dict(metadata or {})}
    return write_container(_file(path), FORMAT, flow.state_dict(), content)


def load_flow(path: str | Path) -> tuple[Glow, dict[str, Any]]:
    """Read a flow written by :func:`save_flow`.

    Args:
        path: The file, or the folder that holds ``flow.safetensors``.

    Returns:
        The flow in eval mode on the CPU, in the dtype it was saved in, and the metadata.

    Raises:
        UserError: If the file is missing, damaged or not a flow, or its tensors do not fit its configuration.
    """
    file = _file(path)
    content, tensors = read_container(file, FORMAT, "flow", "run `fit` again")
    try:
        flow = Glow(**content["config"])
        flow.to(next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()))
        flow.load_state_dict(tensors)
        metadata: dict[str, Any] = content["metadata"]
    except (KeyError, TypeError, ValueError, RuntimeError, StopIteration) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: the flow in it is of another version ({reason}); run `fit` again") from error
    return flow.eval(), metadata


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".safetensors" else path / FILE_NAME
