"""``encode`` of two sentences as a whole process, beside one with sentence-transformers.

Each process starts, imports, opens a 4-layer BERT, encodes on one thread and writes a .npy file.
The clock ``cpu`` counts the time of these processes.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness import NotMeasured, Row, Setting

ROUNDS = 5
PEER = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
network, sentences, output = sys.argv[1:]
model = SentenceTransformer(network, device="cpu", model_kwargs={"dtype": "float32"})
np.save(output, model.encode(open(sentences).read().splitlines()))
"""


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a process, the best of several rounds in turn."""
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    network = str(setting.real_path("models", "bert-mini-mlm"))
    with tempfile.TemporaryDirectory() as folder:
        sentences, output = Path(folder) / "two.txt", Path(folder) / "two.npy"
        sentences.write_text("A dog runs.\nThe cat sleeps.\n", encoding="utf-8")
        words = f"encode --encoder {network} --input {sentences} --output {output}"
        processes = {
            "ours": ["-m", "flowbert", *words.split()],
            "peer": ["-c", PEER, network, str(sentences), str(output)],
        }
        best = dict.fromkeys(processes, float("inf"))
        for _ in range(setting.times(ROUNDS)):
            for name, process in processes.items():
                best[name] = min(best[name], seconds(process, setting.clock))
    yield Row(
        "encode, cold",
        "two sentences, 4-layer BERT, whole process",
        best["ours"],
        best["peer"],
        "sentence-transformers",
    )


def seconds(words: Sequence[str], clock: str) -> float:
    """Seconds of a Python process, or those of its processors."""
    start, before = time.perf_counter(), os.times()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *words]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    if clock == "wall":
        return time.perf_counter() - start
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
