"""``compare`` of two methods on seven tasks as a whole process, beside a script.

The script is what one writes with sentence-transformers, scikit-learn and scipy: vectors of a
4-layer BERT, raw and whitened to 128 dimensions on all sentences of each task, and Spearman of all
pairs. It has no intervals and no page; ``compare`` has both. Both run on one thread.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cold import best_of, network_of
from benchmarks.harness import Row, Setting
from benchmarks.seven_tasks import TASKS
from flowbert.tasks import STS, load_tasks

ROUNDS = 2
PEER = """
import json
import sys
import numpy as np
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.decomposition import PCA
network, data = sys.argv[1:]
model = SentenceTransformer(network, device="cpu", model_kwargs={"dtype": "float32"})
for name, (sentences, left, right, gold) in json.load(open(data)).items():
    vectors = model.encode(sentences)
    for rows in (vectors, PCA(128, whiten=True).fit_transform(vectors)):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        place = {sentence: row for row, sentence in enumerate(sentences)}
        x, y = (rows[[place[s] for s in side]] for side in (left, right))
        print(name, spearmanr((x * y).sum(axis=1), gold).statistic)
"""


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a process, the best of several rounds in turn."""
    network = network_of(setting)
    senteval = str(setting.real_path("data", "senteval"))
    names = ",".join(TASKS[: setting.times(len(TASKS))])
    peer = {}
    for task in load_tasks(names, senteval=senteval):
        assert isinstance(task, STS)
        sentences = dict.fromkeys(task.corpus("target").sentences)
        sides = ([task.sentences[i] for i in side] for side in (task.left, task.right))
        peer[task.name] = (list(sentences), *sides, task.gold.tolist())
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.json"
        data.write_text(json.dumps(peer), encoding="utf-8")
        words = f"compare --methods raw,whitening-128 --encoder.path {network} "
        words += f"--tasks {names} --senteval {senteval} --output results.json"
        processes = {
            "ours": ["-m", "flowbert", *words.split()],
            "peer": ["-c", PEER, network, str(data)],
        }
        best = best_of(setting, processes, ROUNDS)
    yield Row(
        "compare, two methods, intervals, page",
        f"{len(peer)} tasks, 4-layer BERT, whole process",
        best["ours"],
        best["peer"],
        "script of sentence-transformers and scikit-learn, no intervals",
    )
