"""The Lightning data module of Sentence-BERT: labelled pairs, or triples."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from flowbert.data.labels import unmeasured
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.sts import Subset, load_task, sentence_pairs
from flowbert.datamodules.examples import Examples
from flowbert.datamodules.options import CorpusOptions
from flowbert.datamodules.positives import nli_triples
from flowbert.datamodules.text import TextDataModule
from flowbert.errors import UserError, choices
from flowbert.store.embedding_store import Encoder

SOURCES = ("nli", "sts", "nli_triples")
_MAX_SCORE = 5.0


class SiameseDataModule(TextDataModule):
    """Labelled pairs, or triples, for Sentence-BERT.

    Args:
        encoder: The encoder that is trained; default: that of the module that a trainer is given beside it.
        options: What is trained on and measured on; default: the built-in sample.
        source: ``nli`` (pairs with the class entailment, neutral or contradiction, for the softmax objective), ``sts``
            (the train split of the first task, wanted cosine = score / 5, for cosine regression), or ``nli_triples``
            (premise, entailment, contradiction, for the triplet objective).
        **shared: Further arguments of :class:`TextDataModule`.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    uses = frozenset({"tasks", "senteval", "nli", "max_sentences", "drop_overlap"})

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        source: str = "nli",
        **shared: Any,
    ) -> None:
        super().__init__(encoder, options, **shared)
        if source not in SOURCES:
            raise UserError(f"source: received {source!r}; {choices(SOURCES, source)}")
        self.source = source

    def read_examples(self) -> Examples:
        """Pairs with their class or wanted cosine, or triples."""
        if self.source == "nli_triples":
            return nli_triples(self.options.nli)
        if self.source == "nli":
            data = load_nli(self.options.nli)
            return Examples("nli", (data.premises, data.hypotheses), np.array([LABELS.index(x) for x in data.labels]))
        name = self.options.task_names[0]
        subsets = self._unmeasured(load_task(name, self.options.senteval).split("train"))
        first = tuple(sentence for subset in subsets for sentence in subset.sentences1)
        second = tuple(sentence for subset in subsets for sentence in subset.sentences2)
        scores = np.concatenate([subset.scores for subset in subsets]) / _MAX_SCORE
        return Examples(f"{name} train", (first, second), scores.astype(np.float32))

    def _unmeasured(self, subsets: Sequence[Subset]) -> Sequence[Subset]:
        """Labelled pairs that the evaluation does not measure."""
        drop = self.options.drop_overlap
        for task in self.tasks:
            for split in ("dev", "test"):
                measured = partial(sentence_pairs, task.splits.get(split, []))
                subsets = unmeasured(subsets, measured, f"{task.name} {split}", drop_overlap=drop)
        return subsets
