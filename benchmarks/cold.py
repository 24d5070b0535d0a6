"""Whole processes that encode two sentences, beside those of sentence-transformers.

Each process starts, imports, opens a 4-layer BERT and encodes on one thread: the command
``encode``, which writes a .npy file, and a script that loads a whitening model, whose peer loads a
PCA of scikit-learn. The clock ``cpu`` counts the time of these processes.

Floor: transformers alone encodes in a process, without a map.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import joblib
from sklearn.decomposition import PCA

from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.maps import Whitening
from flowbert.model import Model

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
LOAD = """
import sys
import numpy as np
from flowbert import Model
model, sentences, output = sys.argv[1:]
np.save(output, Model.load(model).encode(open(sentences).read().splitlines()))
"""
LOAD_PEER = """
import sys
import joblib
import numpy as np
from sentence_transformers import SentenceTransformer
network, pca, sentences, output = sys.argv[1:]
model = SentenceTransformer(network, device="cpu", model_kwargs={"dtype": "float32"})
vectors = model.encode(open(sentences).read().splitlines())
np.save(output, joblib.load(pca).transform(vectors))
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
        model, pca = save_maps(network, folder)
        words = f"encode --encoder {network} --input {sentences} --output {output}"
        files = [str(sentences), str(output)]
        processes = {
            "encode": ["-m", "flowbert", *words.split()],
            "encode peer": ["-c", PEER, network, *files],
            "load": ["-c", LOAD, model, *files],
            "load peer": ["-c", LOAD_PEER, network, pca, *files],
            "floor": ["-c", FLOOR, network, *files],
        }
        best = best_of(setting, processes, ROUNDS)
    yield Row(
        "encode, cold",
        "two sentences, 4-layer BERT, whole process",
        best["encode"],
        best["encode peer"],
        "sentence-transformers",
        best["floor"],
    )
    yield Row(
        "Model.load, cold",
        "two sentences, 4-layer BERT and whitening, whole process",
        best["load"],
        best["load peer"],
        "sentence-transformers and PCA of scikit-learn",
        best["floor"],
    )


def save_maps(network: str, folder: str) -> tuple[str, str]:
    """Paths of a saved whitening model, and of a saved PCA of the same vectors."""
    model, pca = f"{folder}/model", f"{folder}/pca"
    encoder = SentenceEncoder(network)
    vectors = encoder.encode(sample_corpus())
    Model(encoder, Whitening().fit(vectors)).save(model)
    joblib.dump(PCA(whiten=True).fit(vectors), pca)
    return model, pca


def network_of(setting: Setting) -> str:
    """The network of processes, if sentence-transformers is installed."""
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    return str(setting.real_path("models", NETWORK))


def best_of(
    setting: Setting, processes: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, float]:
    """The best of several rounds of each Python process in an empty folder, in turn."""
    best = dict.fromkeys(processes, float("inf"))
    for _ in range(setting.times(rounds)):
        for name, process in processes.items():
            with tempfile.TemporaryDirectory() as folder:
                best[name] = min(best[name], seconds(process, setting.clock, folder))
    return best


def seconds(words: Sequence[str], clock: str, folder: str) -> float:
    """Seconds of a Python process, or of its processors.

    Args:
        words: Its arguments.
        clock: Clock of :class:`Setting`.
        folder: Folder in which it runs, also that of the cache.
    """
    start, before = time.perf_counter(), os.times()
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
