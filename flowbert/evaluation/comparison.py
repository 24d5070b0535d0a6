"""Methods side by side on the same pairs: one frozen pass of the encoder feeds them all."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from flowbert.calibration import Calibration
from flowbert.data.corpus import Corpus
from flowbert.data.store import EmbeddingStore, MemoryStore
from flowbert.data.sts import STSTask
from flowbert.evaluation.protocol import TaskFigures, embed_pairs, evaluate_pairs

Store = EmbeddingStore | MemoryStore
Method = Calibration | Callable[[Tensor], Tensor]
_CHUNK = 8192  # rows per partial_fit: bounds the memory whatever the corpus


def fit_on(calibration: Calibration, corpus: Corpus, store: Store) -> Calibration:
    """Fit a calibration on a corpus whose sentences the store holds, every occurrence counted, block by block."""
    calibration.reset()
    rows = store.rows(corpus.sentences)
    for start in range(0, len(rows), _CHUNK):
        calibration.partial_fit(torch.from_numpy(store.take(rows[start : start + _CHUNK])))
    return calibration


def compare(
    store: Store,
    methods: Mapping[str, Method],
    tasks: Iterable[STSTask],
    corpus_of: Callable[[STSTask], Corpus],
    split: str = "test",
) -> Iterable[tuple[str, Corpus, TaskFigures]]:
    """Fit each closed-form method on each task's corpus and evaluate it on the task.

    Args:
        store: Holds the embeddings; what it lacks is encoded on the way.
        methods: Calibrations, fitted here, or maps fitted before, by the name they have in the tables.
        tasks: STS tasks.
        corpus_of: The corpus to fit on for a task: its own sentences (``target``), or one for all.
        split: Split to evaluate on.

    Yields:
        Method name, corpus, figures: task by task, methods in the order given.
    """
    fitted_on = ""
    for task in tasks:
        corpus = corpus_of(task)
        store.add(corpus.sentences)
        pairs = embed_pairs(task, split, store.embeddings)
        for name, method in methods.items():
            if isinstance(method, Calibration):
                if corpus.digest != fitted_on:
                    fit_on(method, corpus, store)
                yield name, corpus, evaluate_pairs(pairs, method.transform)
            else:
                yield name, corpus, evaluate_pairs(pairs, method)
        fitted_on = corpus.digest
