"""A corpus past memory in, a folder of vectors out: each process reads and writes shards of its own."""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from flowbert.data.streams import Shard, stream_shards
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import UserError
from flowbert.io.digest import digest_file
from flowbert.io.run_folder import RunFolder
from flowbert.methods.embedder import Embedder, default_method
from flowbert.notices import lightning_notices_filtered
from flowbert.runs.encode import embedder_of
from flowbert.training.processes import lost_process
from flowbert.vectors.manifest import join_parts, write_part

_BLOCK = 8192  # sentences that are in memory at once
_WAIT = timedelta(days=30)  # for processes that have more to read; one that dies is noticed at once


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

    Under torchrun every process takes every W-th shard, and the first one writes the manifest when all are done. A
    shard gives the same part whoever writes it. A part that is there already is left as it is: an encoding that was
    interrupted goes on, with any number of processes. The folder is a table of vectors like a file of them:
    ``OUTPUT/manifest.json``.

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
        UserError: For every mistake in the arguments or files, and where another process has ended.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    shards = stream_shards(input, column)
    embedder = embedder_of(model, method, {"path": SAMPLE_PATH, **(encoder or {})}, _not_counted)
    made_by = {"encoder": embedder.encoder.key(), "map": None if model is None else _map_digest(model, method)}
    try:
        with lightning_notices_filtered():
            fabric = _processes(torch.device(device))
        embedder.encoder.to(device if fabric is None else fabric.device)
        dim = embedder.encode(["."]).shape[1]
        rank, world_size = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
        for number in range(rank, len(shards), world_size):
            source = {**shards[number].source, **made_by}
            write_part(folder, number, _blocks(shards[number], embedder), dim, source)
        if fabric is not None:
            fabric.barrier()
        shape = join_parts(folder, len(shards)) if rank == 0 else (0, 0)
        return shape if fabric is None else fabric.broadcast(shape)
    except RuntimeError as error:
        reason = lost_process(error)
        if reason is None:
            raise
        raise UserError(f"{reason}; run again: parts that are whole stay") from error


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


def _processes(device: torch.device) -> Fabric | None:
    """The processes that torchrun has started; none if it has not."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    here, all_of_them = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    strategy = DDPStrategy(timeout=_WAIT)
    fabric = Fabric(accelerator=device.type, devices=here, num_nodes=all_of_them // here, strategy=strategy)
    fabric.launch()
    return fabric
