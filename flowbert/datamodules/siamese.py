"""The Lightning data module of Sentence-BERT: labelled pairs, or triples."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from flowbert.data.labels import check_overlap, without_overlap
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.sts import Subset, load_task, sentence_pairs
from flowbert.datamodules.contrastive import nli_triples
from flowbert.datamodules.examples import ExampleDataModule, Examples
from flowbert.errors import UserError, choices

SOURCES = ("nli", "sts", "nli_triples")
_MAX_SCORE = 5.0


class SiameseDataModule(ExampleDataModule):
    """Labelled pairs, or triples, for Sentence-BERT.

    Args:
        source: ``nli`` (pairs with the class entailment, neutral or contradiction, for the softmax objective), ``sts``
            (the train split of ``task``, wanted cosine = score / 5, for cosine regression), or ``nli_triples``
            (premise, entailment, contradiction, for the triplet objective).
        task: The STS task of ``source=sts``, and of the evaluation unless ``eval_tasks`` says otherwise.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are: ``builtin-sample``, ``hub``, or jsonl/csv/tsv/parquet files.
        max_sentences: Train on a random subset of this many pairs or triples; default: all.
        held_out: Share of the distinct first sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Pairs or triples per step and process.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose sentences are sorted by length together; 1: plain random batches.
        predict: Text file whose sentences ``predict`` embeds; default: the first sentences.
        drop_overlap: With ``source=sts``: leave out training pairs that the evaluation measures; else they are refused.
        seed: Seed of the subset, the held-out split and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        source: str = "nli",
        task: str = "SAMPLE",
        eval_tasks: list[str] | None = None,
        senteval: str | None = None,
        nli: str = "builtin-sample",
        max_sentences: int | None = None,
        held_out: float = 0.0,
        batch_size: int = 16,
        max_length: int = 128,
        pool: int = 32,
        predict: str | None = None,
        drop_overlap: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if source not in SOURCES:
            raise UserError(f"data.source: received {source!r}; {choices(SOURCES, source)}")
        self.save_hyperparameters(logger=False)
        self._check_shared()

    @property
    def source(self) -> str:
        """What the pairs are: ``nli``, ``sts`` or ``nli_triples``."""
        return str(self.hparams["source"])

    def read_examples(self) -> Examples:
        """Pairs with their class or wanted cosine, or triples."""
        h = self.hparams
        if self.source == "nli_triples":
            return nli_triples(h["nli"])
        if self.source == "nli":
            data = load_nli(h["nli"])
            return Examples("nli", (data.premises, data.hypotheses), np.array([LABELS.index(x) for x in data.labels]))
        subsets = self._apart(load_task(h["task"], h["senteval"]).split("train"))
        first = tuple(sentence for subset in subsets for sentence in subset.sentences1)
        second = tuple(sentence for subset in subsets for sentence in subset.sentences2)
        scores = np.concatenate([subset.scores for subset in subsets]) / _MAX_SCORE
        return Examples(f"{h['task']} train", (first, second), scores.astype(np.float32))

    def _apart(self, subsets: Sequence[Subset]) -> Sequence[Subset]:
        """Labelled pairs that the evaluation does not measure."""
        for task in self.tasks:
            for split in ("dev", "test"):
                measured, where = task.splits.get(split, []), f"{task.name} {split}"
                if self.hparams["drop_overlap"]:
                    subsets = without_overlap(subsets, partial(sentence_pairs, measured), where)
                else:
                    check_overlap(subsets, partial(sentence_pairs, measured), where)
        return subsets
