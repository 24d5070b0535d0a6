"""Shards of an embedding store: files with the digests of sentences and their embeddings, read with care."""

import mmap
import os
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.container import DamagedError, Entry, read_header, read_tensor, write_container
from flowbert.io.digest import DIGEST_BYTES, canonical_json
from flowbert.store.base import DIGEST_TYPE, Digests, Floats

SUFFIX = ".shard"  # not that of format 1: the two versions share folders and leave each other's files alone
_FORMAT = "flowbert-embeddings-2"
_SHARE_OF_OPEN_FILES = 4  # of the files that this process may have open, one in so many is a mapped shard


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard whose sentences are known: where its embeddings lie, and which version of the file that was."""

    path: Path
    entry: Entry
    stamp: tuple[int, int]  # size in bytes, time of the last change in ns


_MAPS: OrderedDict[Shard, Floats] = OrderedDict()  # those last used, of all stores of this process


def write_shard(path: Path, digests: Digests, embeddings: Floats, key: dict[str, Any]) -> None:
    """Write a shard, at once or not at all.

    Raises:
        UserError: If it cannot be written.
    """
    content: dict[str, npt.NDArray[Any]] = {
        "digests": digests.view(np.uint8).reshape(-1, DIGEST_BYTES),
        "embeddings": np.asarray(embeddings, dtype=np.float32),
    }
    with writing(path):
        write_container(path, _FORMAT, content, {"key": key})


def read_shard(file: BufferedReader, key: dict[str, Any], dim: int) -> tuple[Digests, Entry]:
    """Digests of the sentences, verified, and where the embeddings lie.

    Raises:
        DamagedError: If the file is damaged or holds something else; the message says what.
    """
    metadata, entries = read_header(file, _FORMAT)
    if canonical_json(metadata.get("key")) != canonical_json(key):
        raise DamagedError("the embeddings are of another encoder")
    entry, embeddings = entries["digests"], entries["embeddings"]
    needed = (entry.shape[0], dim)
    if embeddings.dtype != "F32" or embeddings.shape != needed:
        found = f"{list(embeddings.shape)} {embeddings.dtype}"
        raise DamagedError(f"the embeddings are {found} instead of {list(needed)} F32")
    return np.frombuffer(read_tensor(file, entry), dtype=DIGEST_TYPE), embeddings


def mapped(shard: Shard) -> Floats:
    """Map the embeddings of a shard, or take the map from among those last used, of all stores of this process."""
    found = _MAPS.pop(shard, None)
    if found is None:
        # Each map keeps a file open.
        most = max(1, os.sysconf("SC_OPEN_MAX") // _SHARE_OF_OPEN_FILES)
        while len(_MAPS) >= most:
            _MAPS.popitem(last=False)
        with reading(shard.path) as file:
            if file is None or stamp(file) != shard.stamp:
                raise UserError(f"{shard.path}: replaced by another process while it was in use; run again")
            found = np.memmap(file, np.float32, "r", shard.entry.begin, shard.entry.shape)
    _MAPS[shard] = found
    return found


def release(shard: Shard) -> None:
    """Let go of the pages of a mapped shard: those that were read would count as memory of this process for ever.

    They stay in the system's cache as long as it has room.
    """
    pages = _MAPS[shard].base if shard in _MAPS else None
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # Linux, macOS
        pages.madvise(mmap.MADV_DONTNEED)


def stamp(file: BufferedReader) -> tuple[int, int]:
    """Which version of a file this is: its size in bytes, and the time of its last change in ns."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def set_aside(path: Path, file: BufferedReader, error: DamagedError) -> bool:
    """Take a shard out of the way; whether its name no longer stands for it."""
    warnings.warn(f"{path}: {error}; it is not used and its sentences are encoded again", FlowbertWarning, 2)
    try:
        # Another process may have done so, and have written the shard again.
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            path.replace(path.with_name(f"{path.name}.rejected"))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def reading(path: Path) -> Iterator[BufferedReader | None]:
    """Give the open file, None if there is none.

    Raises:
        UserError: If it cannot be read: nothing is wrong with it, as far as anyone can tell, so it stays.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        yield None
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is written into a UserError that names it."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; allowed: a folder with space, chosen by FLOWBERT_CACHE "
            "or the options"
        ) from error


def unreadable(path: Path, error: OSError) -> UserError:
    """What to say of a file or folder that cannot be read."""
    return UserError(f"cannot read {path}: {error.strerror or error}; the file stays as it is; allowed: a readable one")
