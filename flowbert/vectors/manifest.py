"""Vectors in parts: a folder of .npy files, each written by one process, that a manifest joins to one table."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.digest import digest_json, running_digest, tensor_bytes
from flowbert.io.json_file import read_json
from flowbert.vectors.matrix import Floats, MappedMatrix, Matrix, Rows

MANIFEST = "manifest.json"
_FORMAT = "flowbert-vector-parts-1"
_RECORD = ("file", "rows", "dim", "digest", "source")


class JoinedMatrix(Matrix):
    """Rows of several matrices one after another.

    Args:
        parts: The matrices, all of the same width.
        digest: Digest of the rows.
    """

    def __init__(self, parts: Sequence[Matrix], digest: str) -> None:
        self._parts, self.digest = parts, digest
        self._starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.by_number = all(part.by_number for part in parts)
        self.shape = (int(self._starts[-1]), parts[0].shape[1])

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows in order."""
        for first, part in zip(self._starts.tolist(), self._parts, strict=False):
            for start, block in part.blocks():
                yield first + start, block

    def take(self, rows: Rows) -> Floats:
        """Some rows; only these are read."""
        result = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        part_of = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(part_of).tolist():
            here = np.flatnonzero(part_of == number)
            result[here] = self._parts[number].take(rows[here] - self._starts[number])
        return result


def write_part(
    folder: Path, number: int, blocks: Iterable[npt.NDArray[np.float32]], dim: int, source: Mapping[str, Any]
) -> None:
    """Write a part and then its record, unless both are there; how many rows come is known at the end.

    A manifest over the parts goes first: it is written anew by :func:`join_parts`.

    Args:
        folder: Where the parts lie.
        number: Number of the part.
        blocks: Its rows, ``(n, D)``.
        dim: D.
        source: What it was made of, as JSON values; a part of something else is written anew.
    """
    path, record = folder / f"part-{number:06d}.npy", folder / f"part-{number:06d}.json"
    if path.exists() and record.exists() and read_json(record).get("source") == dict(source):
        return
    # Interrupted from here on, nothing may say of new vectors what was true of those before them.
    for stale in (folder / MANIFEST, record):
        stale.unlink(missing_ok=True)
    rows, digest = 0, running_digest()
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        write_header = partial(np.lib.format.write_array_header_1_0, file)
        header = {"descr": "<f4", "fortran_order": False}
        write_header({**header, "shape": (0, dim)})
        begin = file.tell()
        for block in blocks:
            content = tensor_bytes(block.astype("<f4", copy=False))
            digest.update(content)
            file.write(content)
            rows += len(block)
        file.seek(0)
        write_header({**header, "shape": (rows, dim)})  # numpy leaves room for any number of rows
        assert file.tell() == begin
    _write(record, {"file": path.name, "rows": rows, "dim": dim, "digest": digest.hexdigest(), "source": dict(source)})


def join_parts(folder: Path, parts: int) -> tuple[int, int]:
    """Write the manifest over the first so many parts, all of which are there; the shape of the whole.

    Raises:
        UserError: If one is not there, or none has a row.
    """
    missing = [number for number in range(parts) if not (folder / f"part-{number:06d}.json").exists()]
    if missing:
        raise UserError(
            f"output: {len(missing)} of {parts} parts are not in {folder} (first: {missing[0]}); allowed: a folder "
            "that all machines share"
        )
    records = [read_json(folder / f"part-{number:06d}.json") for number in range(parts)]
    rows, dim = sum(record["rows"] for record in records), records[0]["dim"]
    if not rows:
        raise UserError("input: received no sentence; allowed: at least one")
    _write(folder / MANIFEST, {"format": _FORMAT, "rows": rows, "dim": dim, "parts": records})
    return rows, dim


def open_parts(path: Path, column: str | None) -> Matrix:
    """Open the rows that a manifest joins; the vectors are not read, the sizes of their files are checked.

    Raises:
        UserError: If it is no manifest, or a part is missing or of another shape.
    """
    if column is not None:
        raise UserError(f"column: received {column!r}; {path} has no columns; allowed: none")
    content = read_json(path)
    records = content.get("parts")
    if content.get("format") != _FORMAT or not isinstance(records, list):
        raise UserError(f"{path}: no manifest of vectors; allowed: one that `encode` has written ({_FORMAT})")
    if any(not isinstance(record, dict) or not all(name in record for name in _RECORD) for record in records):
        raise UserError(f"{path}: damaged: a part lacks one of {', '.join(_RECORD)}")
    parts = [_open(path, record) for record in records if record["rows"]]
    return JoinedMatrix(parts, digest_json([[record["rows"], record["digest"]] for record in records]))


def _open(manifest: Path, record: Mapping[str, Any]) -> Matrix:
    file, shape = manifest.parent / Path(record["file"]).name, (record["rows"], record["dim"])

    def mapped() -> npt.NDArray[Any]:
        try:
            found: npt.NDArray[Any] = np.lib.format.open_memmap(file, mode="r")
        except (ValueError, OSError) as error:
            raise UserError(f"{file}: missing, cut short or damaged ({error}); {manifest} names it") from error
        if found.shape != shape or found.dtype != np.dtype("<f4"):
            raise UserError(f"{file}: holds {found.shape} {found.dtype}; allowed by {manifest}: {shape} float32")
        return found

    return MappedMatrix(mapped)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
