"""The table of the seven STS tasks with intervals, beside one raw pass over their sentences.

Ours is the whole command in a process of its own: six methods with 95% intervals, with an empty
cache and then with a full one. The peer encodes each distinct sentence once and computes no figure.

Floor: with an empty cache that of :mod:`benchmarks.encoding`; with a full one the vectors, read
once. Maps and figures are not counted.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.encoding import PEER_BATCH, arithmetic, traffic
from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.data.scored_pairs import load_sts
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.checkpoint import in_dtype

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR")
METHODS = "raw,standardization,nulling-3,whitening,whitening-128,zca"
TRAIN = Path(__file__).parents[1] / "train.py"


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of the command, cold and warm."""
    if setting.clock != "wall":
        raise NotMeasured("runs processes of its own: only by the wall clock")
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    from sentence_transformers import SentenceTransformer

    senteval = str(setting.real_path("data", "senteval"))
    model = str(setting.real_path("models", "minilm-mlm"))
    names = TASKS[: setting.times(len(TASKS))]
    distinct: dict[str, None] = {}
    for name in names:
        distinct |= dict.fromkeys(load_sts(name, senteval).sentences())
    sentences = list(distinct)
    encoder = SentenceEncoder(model, layers="last")
    peer = SentenceTransformer(
        model, device="cpu", model_kwargs=in_dtype(torch.float32)
    )
    peer.max_seq_length = encoder.max_length
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "FLOWBERT_CACHE": f"{folder}/cache",
            "FLOWBERT_REPORT": "0",
        }

        def ours(state: str) -> None:
            words = ["--encoder.path", model, "--encoder.layers", "last"]
            words += ["--methods", METHODS, "--tasks", ",".join(names)]
            words += ["--senteval", senteval, "--output", f"{folder}/{state}.json"]
            command = [sys.executable, str(TRAIN), "compare", *words]
            subprocess.run(command, check=True, capture_output=True, env=environment)

        calls = {
            "cold": lambda: ours("cold"),
            "peer": lambda: peer.encode(sentences, batch_size=PEER_BATCH["cpu"]),
            "warm": lambda: ours("warm"),
        }
        # One round: the cache is empty once.
        best = {
            name: setting.seconds({name: call}, 1)[name] for name, call in calls.items()
        }
    lengths = encoder.lengths(sentences)
    work = {
        "cold": (arithmetic(encoder, lengths), traffic(encoder, lengths)),
        "warm": (0.0, 4.0 * len(sentences) * encoder.dim),
    }
    for state, (operations, moved) in work.items():
        yield Row(
            f"seven tasks, six methods, intervals; {state}",
            f"{len(names)} tasks, {len(sentences)} distinct sentences",
            best[state],
            best["peer"],
            "one raw pass of sentence-transformers, no figures",
            setting.floor(operations, moved),
        )
