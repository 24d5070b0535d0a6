"""Corpora past memory: shards (files, shards of a hub data set) that are read sentence by sentence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from flowbert.data.files import check_file, expand_files
from flowbert.data.hub import hub_name
from flowbert.data.readers import FORMATS, file_format, read_table
from flowbert.data.table import choose_columns
from flowbert.data.text import iterate_lines
from flowbert.errors import UserError

_AT_ONCE = 8192  # rows of a parquet file


@dataclass(frozen=True)
class Shard:
    """A part of a corpus that one process reads.

    Attributes:
        source: What it is, as JSON values: equal sources, equal sentences.
        sentences: Gives them in order, outer white space removed, blank ones left out.
    """

    source: dict[str, Any]
    sentences: Callable[[], Iterator[str]]


def stream_shards(source: str, column: str | None = None) -> list[Shard]:
    """Shards of a corpus, in order; nothing is read yet.

    Text files are read line by line and parquet files batch by batch; of the other formats one file is in memory at a
    time. ``hub:NAME``, with options as in :func:`flowbert.data.corpus.load_corpus`, is streamed.

    Args:
        source: A path, a glob, a list with commas, or ``hub:NAME``.
        column: Column of the sentences; may be left out where there is only one.

    Raises:
        UserError: If a file is missing or of an unknown kind, or the data set cannot be found.
    """
    if hub_name(source) is not None:
        return _hub_shards(source, column)
    return [_file_shard(path, column) for path in expand_files(source)]


def _file_shard(path: Path, column: str | None) -> Shard:
    check_file(path)
    kind, status = file_format(path), path.stat()
    source = {"file": path.name, "bytes": status.st_size, "changed": status.st_mtime_ns, "column": column}
    if not FORMATS[kind].columns:
        return Shard(source, lambda: _filled(iterate_lines(path)))
    if kind == ".parquet":
        return Shard(source, lambda: _filled(_parquet_texts(path, column)))
    return Shard(source, lambda: _filled(_table_texts(path, column)))


def _filled(texts: Iterator[Any]) -> Iterator[str]:
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"corpus: received {text!r} in the column of sentences; allowed: text")
        if stripped := text.strip():
            yield stripped


def _parquet_texts(path: Path, column: str | None) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            (name,) = choose_columns(file.schema_arrow.names, [] if column is None else [[column]], str(path))
            for batch in file.iter_batches(batch_size=_AT_ONCE, columns=[name]):
                yield from batch.column(0).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a parquet file, or damaged ({str(error).splitlines()[0]})") from error


def _table_texts(path: Path, column: str | None) -> Iterator[Any]:
    table = read_table(path, *([] if column is None else [[column]]))
    (name,) = table.columns
    yield from table.texts(name)


def _hub_shards(source: str, column: str | None) -> list[Shard]:
    import datasets

    name, _, query = source.removeprefix("hub:").partition("?")
    options: dict[str, Any] = {"config": None, "split": "train", **dict(parse_qsl(query))}
    config = options.pop("config")
    local = Path(name).expanduser()
    try:
        data = datasets.load_dataset(str(local) if local.is_dir() else name, config, streaming=True, **options)
        names = data.column_names or list(next(iter(data)))
    except (OSError, ValueError, TypeError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"hub data set {source!r} cannot be streamed: {reason}") from error
    (chosen,) = choose_columns(names, [] if column is None else [[column]], f"hub data set {name!r}")

    def shard(index: int) -> Shard:
        part = data.shard(num_shards=data.num_shards, index=index)
        said = {"hub": source, "shard": index, "of": data.num_shards, "column": chosen}
        return Shard(said, lambda: _filled(row[chosen] for row in part))

    return [shard(index) for index in range(data.num_shards)]
