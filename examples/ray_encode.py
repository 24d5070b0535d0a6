"""Encode parquet files on a cluster: python examples/ray_encode.py DIR sentences/ vectors/.

Columns in: id (0, 1, 2, ...) and text. Columns out: id and vector, whitened, in the order of id.
"""

import argparse
from typing import Any

import numpy as np
import ray
import torch

from flowbert import Model, Whitening
from flowbert.encoders import load_encoder
from flowbert.maps import Moments


class Encode:
    """An actor with a model, which Ray carries to it."""

    def __init__(self, model: Any) -> None:
        self.model = ray.get(model)

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Columns of the vectors."""
        return {"id": batch["id"], "vector": self.model.encode(list(batch["text"]))}


def add_up(batch: Any) -> dict[str, Any]:
    """Moments of the rows of a batch."""
    rows = torch.from_numpy(np.stack(batch["vector"]))
    part = Moments(rows.shape[1]).update(rows)
    return {"moments": np.array([part], dtype=object)}


def main(encoder: str, sentences: str, vectors: str) -> None:
    """Encode twice: for the moments of whitening, and with it. A core reads for two that encode."""
    ray.init(ignore_reinit_error=True)  # on a cluster: the address is in RAY_ADDRESS
    cores = int(ray.cluster_resources()["CPU"])
    if cores < 2:
        raise SystemExit("Ray has 1 core; expected 2 or more: one reads, one encodes")
    size = cores * 2 // 3
    print(f"{size} of Ray's {cores} cores encode, the others read and write")
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    texts = ray.data.read_parquet(sentences)
    texts = texts.repartition(
        target_num_rows_per_block=4096
    )  # otherwise each small file is one block
    actors = {"compute": ray.data.ActorPoolStrategy(size=size), "batch_size": None}
    raw = Model(load_encoder(encoder))
    model = ray.put(raw)  # kept here, for an actor that starts again
    rows = texts.map_batches(Encode, fn_constructor_args=[model], **actors)
    parts = rows.map_batches(add_up, batch_size=None).iter_rows()
    whitening = Whitening().fit_moments(Moments.merge(x["moments"] for x in parts))
    model = ray.put(Model(raw.encoder, whitening))
    rows = texts.map_batches(Encode, fn_constructor_args=[model], **actors)
    rows.write_parquet(vectors)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("encoder", "sentences", "vectors"):
        parser.add_argument(name)
    main(**vars(parser.parse_args()))
