"""The one file of tensors: safetensors whose bytes depend on the content alone and prove that it is whole.

The header's metadata hold the format's tag, JSON values, a digest of every tensor, and a digest of all of the header.
A file is read only if its header is, byte for byte, what :func:`write_container` would write: no bit can change unseen.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.digest import canonical_json, digest_bytes, tensor_bytes

if TYPE_CHECKING:  # a process that has arrays alone does not wait for torch
    from torch import Tensor

_DTYPES = {"BF16": "bfloat16", "BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"}
_DTYPES |= {"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8"}
_NAMES = {name: code for code, name in _DTYPES.items()}
_ALIGNMENT = 8


class DamagedError(ValueError):
    """The content of a file proves that it is damaged, or none of :func:`write_container`; the message says how."""


class FormatError(DamagedError):
    """The file is whole, but of another format or version."""


@dataclass(frozen=True)
class Entry:
    """One tensor in the file: dtype as safetensors names it, shape, first byte in the file, size in bytes, digest."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    size: int
    digest: str


def write_container(
    path: str | Path,
    format: str,
    tensors: Mapping[str, "Tensor | npt.NDArray[Any]"],
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write tensors and JSON values, at once or not at all; equal content gives equal bytes. Returns the path.

    Args:
        path: The file.
        format: Tag that :func:`read_container` asks for: what it is and its version, e.g. ``flowbert-flow-2``.
        tensors: Torch tensors or numpy arrays of little-endian machines.
        metadata: JSON values.
    """
    chunks = {name: tensor_bytes(tensor) for name, tensor in tensors.items()}
    entries: dict[str, Any] = {}
    end = 0
    # The widest first, as safetensors does: then every tensor lies aligned.
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        begin, end = end, end + len(chunks[name])
        dtype = _NAMES[str(tensors[name].dtype).removeprefix("torch.")]
        entries[name] = {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": [begin, end]}
    text = {
        "format": format,
        "metadata": canonical_json(dict(metadata or {})),
        "digests": canonical_json({name: digest_bytes(chunk) for name, chunk in chunks.items()}),
    }
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        file.write(_header_bytes(entries, text))
        for name in entries:
            file.write(chunks[name])
    return Path(path)


def read_container(path: str | Path, format: str, what: str, remedy: str) -> tuple[dict[str, Any], dict[str, "Tensor"]]:
    """Read a file of :func:`write_container` and verify all of it.

    Args:
        path: The file.
        format: The tag it must have.
        what: What it holds, for messages: ``"flow"``.
        remedy: What to do about a damaged or older file: ``"run `fit` again"``.

    Returns:
        The JSON values, and the tensors on the CPU.

    Raises:
        UserError: If the file is missing, cannot be read, is damaged, or has another format.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; needed: a saved {what}")
    try:
        with path.open("rb") as file:
            metadata, entries = read_header(file, format)
            tensors = {name: _tensor(entry, read_tensor(file, entry)) for name, entry in entries.items()}
    except FormatError as error:
        raise UserError(f"{path}: {error}, not a {what} of this version; allowed: {format!r}; {remedy}") from error
    except DamagedError as error:
        raise UserError(f"{path}: the {what} is damaged ({error}); needed: an intact copy, or {remedy}") from error
    except OSError as error:
        raise UserError(f"{path}: the {what} cannot be read ({error.strerror or error})") from error
    return metadata, tensors


def read_header(file: BufferedReader, format: str) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Read and verify everything but the tensors: JSON values, and where each tensor lies.

    Raises:
        DamagedError: If the header is not, to the bit, one of :func:`write_container`, or the file's size is not its.
        FormatError: If it has another format.
        OSError: If the file cannot be read.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    length = file.read(8)
    start = 8 + int.from_bytes(length, "little")
    if len(length) < 8 or start > size:
        raise DamagedError("no header, or cut short")
    raw = file.read(start - 8)
    try:
        content = json.loads(raw)
        text = content.pop("__metadata__", {})
        tag = text.get("format")
        if "digest" not in text:
            raise FormatError(f"format {tag!r} without a digest")
        del text["digest"]
        if _header_bytes(content, text) != length + raw:
            raise DamagedError("the header does not match its digest")
        if tag != format:
            raise FormatError(f"format {tag!r}")
        digests, entries = json.loads(text["digests"]), {}
        for name, entry in content.items():
            begin, end = entry["data_offsets"]
            entries[name] = Entry(entry["dtype"], tuple(entry["shape"]), start + begin, end - begin, digests[name])
        metadata = json.loads(text["metadata"])
    except DamagedError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise DamagedError("the header is not readable") from None
    expected = start + sum(entry.size for entry in entries.values())
    if size != expected:
        raise DamagedError(f"{size} bytes instead of {expected}")
    return metadata, entries


def read_tensor(file: BufferedReader, entry: Entry) -> bytearray:
    """Read the bytes of one tensor and verify them.

    Raises:
        DamagedError: If they do not match their digest.
        OSError: If they cannot be read.
    """
    content = bytearray(entry.size)
    file.seek(entry.begin)
    if file.readinto(content) != entry.size or digest_bytes(content) != entry.digest:
        raise DamagedError("the tensors do not match their digest")
    return content


def _header_bytes(entries: Mapping[str, Any], text: Mapping[str, Any]) -> bytes:
    """Length and JSON, padded so that the tensors lie aligned; the digest covers all of it."""
    body = canonical_json({**entries, "__metadata__": text})
    digest = digest_bytes(body.encode())
    whole = canonical_json({**entries, "__metadata__": {**text, "digest": digest}}).encode()
    whole += b" " * (-len(whole) % _ALIGNMENT)
    return len(whole).to_bytes(8, "little") + whole


def _tensor(entry: Entry, content: bytearray) -> "Tensor":
    import torch

    dtype = getattr(torch, _DTYPES[entry.dtype])
    return torch.from_numpy(np.frombuffer(content, np.uint8)).view(dtype).reshape(entry.shape)
