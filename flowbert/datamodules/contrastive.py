"""The Lightning data module of SimCSE: sentences with their positives, and perhaps hard negatives."""

from collections.abc import Sequence
from typing import Any

from flowbert.datamodules.examples import Examples
from flowbert.datamodules.options import CorpusOptions
from flowbert.datamodules.positives import POSITIVES, Positive
from flowbert.datamodules.text import TextDataModule
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.store.embedding_store import Encoder
from flowbert.training.limits import check_limits


class ContrastiveDataModule(TextDataModule):
    """Sentences with a positive, and perhaps a hard negative, for SimCSE.

    Args:
        encoder: The encoder that is trained; default: that of the module that a trainer is given beside it.
        options: What is trained on and measured on; default: the built-in sample.
        positive: What each sentence's positive is: ``dropout`` (the sentence itself, under another dropout mask);
            ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it); ``next_sentence`` (of the corpus); ``mlm``
            (words replaced by a masked language model); ``entailment`` (an NLI premise's entailed hypothesis; the
            corpus must be ``nli``). In Python also an object of :class:`flowbert.datamodules.positives.Positive`.
        positive_rate: Share of the words that ``crop``, ``word_deletion`` and ``mlm`` change, in (0, 1).
        mlm_path: The masked language model for ``mlm``: a folder or hub name.
        hard_negatives: With ``entailment``: also take the premise's contradiction, as a negative; premises without one
            are left out.
        batch_size: Examples per step and process; each is a negative of the others. Accumulated gradients average over
            batches and add no negatives: ``chunk_size`` of the module is the way to a large batch on little memory.
        pool: Batches whose sentences are sorted by length together. 1: random batches, as published. 32 is about 1.1
            times as fast (docs/benchmarks.md), but the negatives then are of about the length of their sentence.
        **shared: Further arguments of :class:`TextDataModule`.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        positive: str | Positive = "dropout",
        positive_rate: float = 0.1,
        mlm_path: str | None = None,
        hard_negatives: bool = True,
        batch_size: int = 64,
        max_length: int = 32,
        pool: int = 1,
        **shared: Any,
    ) -> None:
        super().__init__(encoder, options, batch_size=batch_size, max_length=max_length, pool=pool, **shared)
        check_limits(positive_rate=positive_rate)
        if batch_size == 1:
            raise UserError("batch_size: received 1, so that a sentence has no negatives; allowed: at least 2")
        if isinstance(positive, str):
            if positive not in POSITIVES:
                raise UserError(f"positive: received {positive!r}; {choices(POSITIVES, positive)}")
            positive = POSITIVES[positive](positive_rate, mlm_path, hard_negatives)
        self.positive = positive
        self.positive.check(self.options)

    def load(self) -> None:
        """Read examples and tasks, and what it takes to make the positives."""
        super().load()
        self.positive.load()

    def read_examples(self) -> Examples:
        """Sentences with their positives, or NLI triples."""
        return self.positive.examples(self.options)

    def texts(self, epoch: int, indices: Sequence[int]) -> list[list[str]]:
        """Anchors and positives, the latter edited by seed, epoch and example alone, and hard negatives."""
        texts = super().texts(epoch, indices)
        rngs = [Stream(self.seed, "edit", epoch, i).python() for i in indices]
        texts[1] = self.positive.edit(texts[1], rngs)
        return texts
