"""Where the positive of an example comes from, one class each, by name in :data:`POSITIVES`."""

import random
from collections.abc import Sequence

from flowbert.data.augment import Edit, MaskedReplacement, crop, delete_one_word, delete_words, edit_sentence
from flowbert.data.nli import load_nli
from flowbert.datamodules.examples import Examples
from flowbert.datamodules.options import CorpusOptions
from flowbert.errors import UserError


class Positive:
    """The sentence itself, which passes through the encoder a second time, under another dropout mask.

    A subclass has a name of its own, and stands in :data:`POSITIVES`.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        rate: Share of the words that an edit changes, in (0, 1).
        mlm_path: Folder or hub name of a masked language model, for the kind that replaces words.
        hard_negatives: Whether to take hard negatives, too, where the data have them.

    Raises:
        UserError: If something that this kind needs is missing.
    """

    name = "dropout"

    def __init__(self, rate: float = 0.1, mlm_path: str | None = None, hard_negatives: bool = True) -> None:
        self.rate = rate
        self.mlm_path = mlm_path
        self.hard_negatives = hard_negatives

    def check(self, options: CorpusOptions) -> None:
        """Raise a UserError if these positives cannot be had from such a corpus."""

    def load(self) -> None:
        """Load what it takes to make them."""

    def examples(self, options: CorpusOptions) -> Examples:
        """Sentences with their positives, and hard negatives where there are any, before any edit."""
        corpus = options.load_corpus()
        name = corpus.name if self.name == "dropout" else f"{corpus.name}, {self.name}"
        return Examples(name, (corpus.sentences, corpus.sentences), blank=corpus.blank)

    def edit(self, sentences: Sequence[str], rngs: Sequence[random.Random]) -> list[str]:
        """The positives of a batch as they are in an epoch.

        Args:
            sentences: B positives.
            rngs: B sources of randomness: each depends on seed, epoch and example alone.
        """
        del rngs
        return list(sentences)


class EditedSentence(Positive):
    """The sentence after an edit of its words."""

    edit_words: Edit

    def edit(self, sentences: Sequence[str], rngs: Sequence[random.Random]) -> list[str]:
        """Edit each sentence."""
        return [edit_sentence(text, self.edit_words, self.rate, rng) for text, rng in zip(sentences, rngs, strict=True)]


class Crop(EditedSentence):
    """A random span of the sentence, without ``rate`` of its words.

    Example:
        >>> Crop(rate=0.5).edit(["a dog runs home"], [random.Random(0)])
        ['dog runs']
    """

    name = "crop"
    edit_words = staticmethod(crop)


class WordDeletion(EditedSentence):
    """The sentence without ``rate`` of its words."""

    name = "word_deletion"
    edit_words = staticmethod(delete_words)


class OneWordDeleted(EditedSentence):
    """The sentence without one of its words."""

    name = "delete_one_word"
    edit_words = staticmethod(delete_one_word)


class ReplacedWords(Positive):
    """The sentence with ``rate`` of its words replaced by what a masked language model says in their place."""

    name = "mlm"

    def __init__(self, rate: float = 0.1, mlm_path: str | None = None, hard_negatives: bool = True) -> None:
        super().__init__(rate, mlm_path, hard_negatives)
        if mlm_path is None:
            raise UserError("mlm_path: received nothing with positive mlm; allowed: a masked language model")
        self._replace: MaskedReplacement | None = None

    def load(self) -> None:
        """Load the masked language model."""
        if self._replace is None:
            self._replace = MaskedReplacement(str(self.mlm_path), self.rate)

    def edit(self, sentences: Sequence[str], rngs: Sequence[random.Random]) -> list[str]:
        """Replace words of each sentence."""
        if self._replace is None:
            raise RuntimeError("ReplacedWords was asked for positives before load()")
        return self._replace(sentences, rngs)


class NextSentence(Positive):
    """The sentence that follows in the corpus."""

    name = "next_sentence"

    def examples(self, options: CorpusOptions) -> Examples:
        """Pairs of neighbours."""
        corpus = options.load_corpus()
        columns = (corpus.sentences[:-1], corpus.sentences[1:])
        return Examples(f"{corpus.name}, next sentence", columns, blank=corpus.blank)


class Entailment(Positive):
    """The hypothesis that an NLI premise entails; with hard negatives also the one that contradicts it.

    Premises without a contradiction are left out then.
    """

    name = "entailment"

    def check(self, options: CorpusOptions) -> None:
        """Raise a UserError unless the corpus is NLI."""
        if options.corpus != "nli":
            raise UserError(f"positive: 'entailment' needs corpus nli, received {options.corpus!r}; allowed: nli")

    def examples(self, options: CorpusOptions) -> Examples:
        """NLI triples, or pairs."""
        return nli_triples(options.nli) if self.hard_negatives else _nli_entailments(options.nli)


POSITIVES: dict[str, type[Positive]] = {
    kind.name: kind for kind in (Positive, Crop, WordDeletion, OneWordDeleted, NextSentence, ReplacedWords, Entailment)
}


def nli_triples(source: str) -> Examples:
    """(premise, entailment, contradiction) of every premise of an NLI source that has both."""
    triples = load_nli(source).triples()
    if not triples:
        raise UserError(
            f"nli: {source} has no premise with both an entailment and a contradiction; allowed: NLI data with such "
            "triples, or hard_negatives false"
        )
    anchors, positives, negatives = zip(*triples, strict=True)
    return Examples("nli triples", (anchors, positives, negatives))


def _nli_entailments(source: str) -> Examples:
    data = load_nli(source)
    rows = [i for i, label in enumerate(data.labels) if label == "entailment"]
    if not rows:
        raise UserError(f"nli: {source} has no entailment; allowed: NLI data with entailments")
    return Examples("nli entailments", (tuple(data.premises[i] for i in rows), tuple(data.hypotheses[i] for i in rows)))
