"""``make quickstart`` as a whole process on one thread, with cached vectors.

It opens a small BERT, trains a flow, fits whitening, and writes intervals and a page. No library
does the same: the row has no peer.

Floor: a process that only imports the libraries that the quickstart uses.
"""

import tempfile
from collections.abc import Iterator

from benchmarks.cold import seconds
from benchmarks.harness import Row, Setting

ROUNDS = 3
FLOOR = """
import matplotlib.figure
import pandas
import pytorch_lightning
import scipy.stats
import sklearn.neighbors
import torch
import torchmetrics
from transformers import AutoTokenizer, BertModel
"""


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a process, the best of several rounds in turn, after one that fills the cache."""
    ours, floors = [], []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(1 + setting.times(ROUNDS)):
            words = f"-m flowbert fit --config quickstart --run_dir {run}"
            ours.append(seconds(words.split(), setting.clock, folder))
            floors.append(seconds(["-c", FLOOR], setting.clock, folder))
    yield Row(
        "make quickstart",
        "a flow of the built-in sample, vectors cached, whole process",
        min(ours[1:]),
        floor=min(floors[1:]),
    )
