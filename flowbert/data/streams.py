"""Corpora past memory: shards (files, shards of a hub data set) that are read sentence by sentence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowbert.data.files import check_file, expand_files
from flowbert.data.hub import hub_name, hub_options, open_hub
from flowbert.data.readers import FORMATS, file_format, parquet_errors, read_table
from flowbert.data.table import Layouts, choose_columns
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
    layouts = [] if column is None else [[column]]
    if hub_name(source) is not None:
        return _hub_shards(source, layouts)
    return [_file_shard(path, column, layouts) for path in expand_files(source)]


def _file_shard(path: Path, column: str | None, layouts: Layouts) -> Shard:
    check_file(path)
    kind, status = file_format(path), path.stat()
    source = {"file": path.name, "bytes": status.st_size, "changed": status.st_mtime_ns, "column": column}
    if not FORMATS[kind].columns:
        return Shard(source, lambda: _filled(iterate_lines(path)))
    texts = _parquet_texts if kind == ".parquet" else _table_texts
    return Shard(source, lambda: _filled(texts(path, layouts)))


def _filled(texts: Iterator[Any]) -> Iterator[str]:
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"corpus: received {text!r} in the column of sentences; allowed: text")
        if stripped := text.strip():
            yield stripped


def _parquet_texts(path: Path, layouts: Layouts) -> Iterator[Any]:
    import pyarrow.parquet

    with parquet_errors(path), pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        (name,) = choose_columns(file.schema_arrow.names, layouts, str(path))
        for batch in file.iter_batches(batch_size=_AT_ONCE, columns=[name]):
            yield from batch.column(0).to_pylist()


def _table_texts(path: Path, layouts: Layouts) -> Iterator[Any]:
    table = read_table(path, *layouts)
    (name,) = table.columns
    yield from table.texts(name)


def _hub_shards(source: str, layouts: Layouts) -> list[Shard]:
    name, options = hub_options(source)
    data, names = open_hub(name, streaming=True, **options)
    (chosen,) = choose_columns(names, layouts, f"hub data set {name!r}")

    def shard(index: int) -> Shard:
        part = data.shard(num_shards=data.num_shards, index=index)
        said = {"hub": source, "shard": index, "of": data.num_shards, "column": chosen}
        return Shard(said, lambda: _filled(row[chosen] for row in part))

    return [shard(index) for index in range(data.num_shards)]
