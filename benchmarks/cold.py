"""``encode`` of two sentences as a whole process, beside one with sentence-transformers.

Each process starts, imports, opens a 4-layer BERT, encodes on one thread and writes a .npy file.
The clock ``cpu`` counts the time of these processes.

Floor: transformers alone does the same in a process.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness import NotMeasured, Row, Setting

NETWORK = "bert-mini-mlm"
ROUNDS = 5
PEER = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
network, sentences, output = sys.argv[1:]
model = SentenceTransformer(network, device="cpu", model_kwargs={"dtype": "float32"})
np.save(output, model.encode(open(sentences).read().splitlines()))
"""
FLOOR = """
import sys
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer
network, sentences, output = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(network)
model = AutoModel.from_pretrained(network).eval()
lines = open(sentences).read().splitlines()
tokens = tokenizer(lines, padding=True, return_tensors="pt")
with torch.no_grad():
    states = model(**tokens).last_hidden_state
mask = tokens["attention_mask"].unsqueeze(-1)
np.save(output, ((states * mask).sum(1) / mask.sum(1)).numpy())
"""


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a process, the best of several rounds in turn."""
    network = network_of(setting)
    with tempfile.TemporaryDirectory() as folder:
        sentences, output = Path(folder) / "two.txt", Path(folder) / "two.npy"
        sentences.write_text("A dog runs.\nThe cat sleeps.\n", encoding="utf-8")
        words = f"encode --encoder {network} --input {sentences} --output {output}"
        files = [network, str(sentences), str(output)]
        processes = {
            "ours": ["-m", "flowbert", *words.split()],
            "peer": ["-c", PEER, *files],
            "floor": ["-c", FLOOR, *files],
        }
        best = best_of(setting, processes, ROUNDS)
    yield Row(
        "encode, cold",
        "two sentences, 4-layer BERT, whole process",
        best["ours"],
        best["peer"],
        "sentence-transformers",
        best["floor"],
    )


def network_of(setting: Setting) -> str:
    """The network of processes, if sentence-transformers is installed."""
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    return str(setting.real_path("models", NETWORK))


def best_of(
    setting: Setting, processes: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, float]:
    """The best of several rounds of each Python process, in turn."""
    best = dict.fromkeys(processes, float("inf"))
    for _ in range(setting.times(rounds)):
        for name, process in processes.items():
            best[name] = min(best[name], seconds(process, setting.clock))
    return best


def seconds(words: Sequence[str], clock: str) -> float:
    """Seconds of a Python process in an empty folder, or those of its processors."""
    start, before = time.perf_counter(), os.times()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "OMP_NUM_THREADS": "1",
            "FLOWBERT_CACHE": folder,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        subprocess.run(
            [sys.executable, *words],
            check=True,
            capture_output=True,
            cwd=folder,
            env=os.environ | environment,
        )
    if clock == "wall":
        return time.perf_counter() - start
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
