"""The one digest: BLAKE2b of 128 bits, of bytes, of JSON values and of tensors."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # a process that digests bytes alone does not wait for torch
    from torch import Tensor

DIGEST_BYTES = 16
_PIECE = 1 << 24
Bytes = bytes | bytearray | memoryview


def raw_digest(content: Bytes) -> bytes:
    """Digest of some bytes, as 16 bytes."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def digest_bytes(*chunks: Bytes) -> str:
    """Hexadecimal digest of chunks one after another."""
    return digest_chunks(chunks)


def running_digest() -> "hashlib.blake2b":
    """An object that is updated with bytes as they come by."""
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


def digest_chunks(chunks: Iterable[Bytes]) -> str:
    """Hexadecimal digest of chunks one after another, of which one is in memory at a time."""
    digest = running_digest()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def digest_file(path: Path) -> str:
    """Hexadecimal digest of a file's content, read piece by piece."""
    with path.open("rb") as file:
        return digest_chunks(iter(lambda: file.read(_PIECE), b""))


def canonical_json(value: object, *, compact: bool = False) -> str:
    """JSON with sorted keys; what JSON does not know is written as its ``str``.

    Args:
        value: Any value.
        compact: Without spaces, and with characters beyond ASCII as they are.
    """
    separators = (",", ":") if compact else None
    return json.dumps(value, sort_keys=True, separators=separators, ensure_ascii=not compact, default=str)


def digest_json(value: object, *, compact: bool = False) -> str:
    """Hexadecimal digest of :func:`canonical_json`: the order of keys plays no role."""
    return digest_bytes(canonical_json(value, compact=compact).encode())


def digest_tensors(tensors: Mapping[str, "Tensor"]) -> str:
    """Hexadecimal digest of tensors in the order of their names: name, dtype, shape and bytes.

    The device on which they lie does not enter.

    Example:
        >>> import torch
        >>> digest_tensors({"w": torch.zeros(2)}) == digest_tensors({"w": torch.zeros(1, 2)})
        False
    """
    return digest_chunks(_tensor_chunks(tensors))


def tensor_bytes(tensor: "Tensor | npt.NDArray[Any]") -> memoryview:
    """Bytes of a tensor or array in row-major order, without a copy where it lies so in memory."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data
    import torch

    content: memoryview = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return content


def _tensor_chunks(tensors: Mapping[str, "Tensor"]) -> Iterable[Bytes]:
    for name in sorted(tensors):
        tensor = tensors[name]
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
        yield tensor_bytes(tensor)
