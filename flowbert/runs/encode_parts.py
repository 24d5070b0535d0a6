"""A corpus past memory in, a folder of vectors out: each process reads and writes shards of its own."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from flowbert.data.streams import Shard, stream_shards
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import UserError
from flowbert.io.digest import digest_file
from flowbert.io.run_folder import RunFolder
from flowbert.methods.embedder import Embedder, default_method
from flowbert.processes import current
from flowbert.runs.encode import embedder_of
from flowbert.vectors.manifest import join_parts, write_part

_BLOCK = 8192  # sentences that are in memory at once


def encode_parts(
    input: str,
    output: str | Path,
    *,
    column: str | None = None,
    model: str | Path | None = None,
    method: str | None = None,
    encoder: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
) -> tuple[int, int]:
    """Embed a corpus of any size: a part of the output for each file or hub shard of the input, and a manifest.

    Of W processes (:func:`flowbert.processes.current`) each takes every W-th shard, and the first one writes the
    manifest when all are done. A shard gives the same part whoever writes it. A part that is there already is left as
    it is: an encoding that was interrupted goes on, with any number of processes. The folder is a table of vectors like
    a file of them: ``OUTPUT/manifest.json``.

    Args:
        input: Files (a path, a glob, a list with commas), or ``hub:NAME``, which is streamed.
        output: Folder of the parts; with several machines one that all of them share.
        column: Column of the sentences in tables.
        model: Run folder of a finished fit, or what else :func:`flowbert.encode` takes.
        method: Map of the model.
        encoder: Arguments of :meth:`flowbert.encoders.SentenceEncoder.from_pretrained`.
        device: Where to compute.

    Returns:
        Number of vectors and their size.

    Raises:
        UserError: For every mistake in the arguments or files.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    shards = stream_shards(input, column)
    embedder = embedder_of(model, method, {"path": SAMPLE_PATH, **(encoder or {})}, _not_counted)
    made_by = {"encoder": embedder.encoder.key(), "map": None if model is None else _map_digest(model, method)}
    embedder.encoder.to(device)
    dim = embedder.encode(["."]).shape[1]
    processes = current()
    for number in range(processes.global_rank, len(shards), processes.world_size):
        source = {**shards[number].source, **made_by}
        write_part(folder, number, _blocks(shards[number], embedder), dim, source)
    processes.barrier()
    return processes.broadcast(join_parts(folder, len(shards)) if processes.is_global_zero else (0, 0))


def _blocks(shard: Shard, embedder: Embedder) -> Iterator[npt.NDArray[np.float32]]:
    sentences = shard.sentences()
    while texts := list(islice(sentences, _BLOCK)):
        yield embedder.encode(texts)


def _map_digest(model: str | Path, method: str | None) -> str | None:
    """Digest of the fitted map; none for raw embeddings."""
    run = RunFolder.find(model)
    name = method or default_method(run)
    return None if name == "raw" else digest_file(run.fitted_map(name))


def _not_counted() -> NoReturn:
    raise UserError("counts: a corpus in parts is read once; allowed: a run folder, a file of counts, or a corpus")
