"""Files and folders: atomic writes, digests, tensors with metadata, JSON."""

import hashlib
import json
import math
import mmap
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowbert.errors import UserError

if TYPE_CHECKING:  # imported when it is used
    import torch


_METADATA = "flowbert"  # one key: safetensors writes several in random order


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; flush and rename it to ``path`` at the end.

    After an error no new file is left, and an older file stays. For a symbolic link, the target is
    written.
    """
    path = follow_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        yield temporary
        replace_durably(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_durably(temporary: Path, path: Path) -> None:
    """Rename a flushed file, so that a power failure leaves the old or the new one."""
    with temporary.open("rb") as file:
        os.fsync(file)
    os.replace(temporary, path)


def follow_link(path: str | Path) -> Path:
    """The target of a symbolic link, which may not exist yet; ``~`` is the home folder.

    Renaming a file to the link itself would replace the link.
    """
    path = Path(os.path.expanduser(path))
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def folders_with(root: str | Path, name: str) -> list[str]:
    """Folders one or two levels below ``root`` with a file of this name, sorted."""
    files = [*Path(root).glob(f"*/{name}"), *Path(root).glob(f"*/*/{name}")]
    return sorted(str(file).removesuffix(f"/{name}") for file in files)


def digest(*parts: bytes | str | object) -> str:
    """BLAKE2b digest (128 bits, hexadecimal) of a sequence of bytes, text and JSON values."""
    return digest_stream(parts)


def digest_stream(parts: Iterable[bytes | str | object]) -> str:
    """:func:`digest` of parts of which one is in memory at a time."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            part = json.dumps(part, sort_keys=True, default=_plain_or_text).encode()
        state.update(part)
    return state.hexdigest()


def sentences_digest(sentences: Iterable[str]) -> str:
    """Digest of sentences in order, with their lengths, so that different lists differ."""
    encoded = (sentence.encode() for sentence in sentences)
    return digest_stream(len(data).to_bytes(8, "little") + data for data in encoded)


def digest_tensors(tensors: "Mapping[str, torch.Tensor]") -> str:
    """Digest of names, dtypes, shapes and values (XXH3, 128 bits, for its speed)."""
    import torch
    import xxhash

    state = xxhash.xxh3_128()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def save_tensors(
    path: str | Path,
    kind: str,
    tensors: "Mapping[str, torch.Tensor | np.ndarray[Any, Any]]",
    **metadata: Any,
) -> None:
    """Write tensors and JSON values as a safetensors file; equal content gives equal bytes.

    Args:
        path: File to write.
        kind: Kind of the content, checked when the file is read.
        tensors: Tensors or arrays by name.
        metadata: JSON values.
    """
    import torch
    from safetensors.numpy import save

    contiguous = {
        name: torch.as_tensor(value).detach().cpu().contiguous()
        for name, value in tensors.items()
    }
    content = {"kind": kind, "metadata": metadata}
    content["digest"] = digest(content, digest_tensors(contiguous))
    text = json.dumps(content, sort_keys=True, default=_plain)
    arrays = {name: tensor.numpy() for name, tensor in contiguous.items()}
    with write_atomically(path) as temporary:
        # `save_file` creates files that only the owner can read.
        temporary.write_bytes(save(arrays, {_METADATA: text}))


def load_tensors(
    path: str | Path, kind: str
) -> "tuple[dict[str, torch.Tensor], dict[str, Any]]":
    """Read a file of :func:`save_tensors` and verify it.

    Returns:
        Tensors by name, and the metadata.

    Raises:
        UserError: If the file is missing or damaged, or has another kind.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(os.path.expanduser(path))
    if not path.is_file():
        raise UserError(f"{path}: no such file; expected a saved {kind}")
    try:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {}).get(_METADATA, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, or not a saved {kind} ({error})") from error
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise UserError(f"{path}: not a saved {kind}")
    expected = content.pop("digest", None)
    if digest(content, digest_tensors(tensors)) != expected:
        raise UserError(
            f"{path}: damaged (its digest differs); expected an intact copy of a {kind}"
        )
    return tensors, content["metadata"]


def release_pages(array: Any) -> None:
    """Free the pages of a memory-mapped array; they are read again when needed."""
    if isinstance(getattr(array, "base", None), mmap.mmap):
        array.base.madvise(mmap.MADV_DONTNEED)


def read_json(path: str | Path, schema: Mapping[str, Any] | type = dict) -> Any:
    """Read a JSON file that may come from elsewhere and check it against a schema.

    Args:
        path: The file.
        schema: The type of the whole, or for an object the type of each entry that is used, or a
            pair (type, default) for one that may be missing. Other entries are ignored.

    Returns:
        The content; objects are completed by defaults.

    Raises:
        UserError: If the file cannot be read, is not JSON, or has an entry of another type.
    """
    content: Any
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON, or damaged ({error})") from error
    if isinstance(schema, type):
        if not isinstance(content, schema):
            raise UserError(f"{path}: expected a {schema.__name__}")
        return content
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object")
    for name, wanted in schema.items():
        kind, *default = wanted if isinstance(wanted, tuple) else (wanted,)
        if name not in content and not default:
            raise UserError(f"{path}: lacks {name!r}")
        value = content.setdefault(name, *default)
        if not isinstance(value, kind) and [value] != default:
            raise UserError(f"{path}: {name} is {value!r}; expected a {kind.__name__}")
    return content


def write_json(path: str | Path, content: Any) -> None:
    """Write JSON atomically; NaN is an error."""
    text = json.dumps(
        content, indent=1, ensure_ascii=False, allow_nan=False, default=_plain
    )
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def without_numpy(value: Any) -> Any:
    """A value whose numbers of numpy, also in dictionaries and lists, are Python's.

    Example:
        >>> without_numpy({"width": np.int64(8), "seeds": [np.uint8(0)]})
        {'width': 8, 'seeds': [0]}
    """
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: without_numpy(each) for key, each in value.items()}
    if type(value) is list:
        return [without_numpy(each) for each in value]
    return value


def _plain(value: Any) -> Any:
    """The JSON value of a numpy number.

    Raises:
        UserError: If the value is something else.
    """
    if isinstance(value, np.generic):
        return value.item()
    raise UserError(f"{value!r} cannot be saved; expected a number, text or a list")


def _plain_or_text(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def as_json(value: Any, describe: Callable[[Any], Any] = str) -> Any:
    """Make a JSON value of nested values; a number that is not finite becomes null.

    Args:
        value: Mappings, lists, tuples, numbers, texts and others.
        describe: Function that makes a JSON value of anything else.

    Example:
        >>> as_json({1: (math.nan, Path("a"))})
        {'1': [None, 'a']}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):  # also of a subclass, such as the version of torch
        return str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_json(each, describe) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each, describe) for each in value]
    return describe(value)


@contextmanager
def write_new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder, renamed to ``path`` at the end and deleted after an error.

    Raises:
        UserError: If ``path`` is a file, or a folder that is not empty.
    """
    path = follow_link(path)
    is_full = path.is_dir() and any(path.iterdir())
    if path.is_file() or is_full or not path.name:  # a folder in use
        raise UserError(f"{path}: exists; expected a new folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
