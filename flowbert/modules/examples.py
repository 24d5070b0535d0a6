"""Sentences, pairs and triples that encoders are trained on, and where positives come from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import Corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.overlap import without_overlap
from flowbert.errors import UserError, choices
from flowbert.io import digest, sentences_digest
from flowbert.modules.augment import WORD_EDITS, Edit, MaskedReplacement, word_edit
from flowbert.modules.base import LIMITS, check_limits
from flowbert.seeding import Stream

LIMITS["positive_rate"] = (lambda value: 0 < value < 1, "above 0 and below 1")

MAX_SCORE = 5.0
"""Gold score of pairs whose cosine is to be 1."""


@dataclass(frozen=True, eq=False)
class Examples:
    """N sentences, pairs or triples.

    Args:
        name: Name for messages and checkpoints.
        columns: One, two or three tuples of N sentences: the sentences; their positives, or second
            sentences of pairs; their hard negatives.
        targets: Class (int64) or cosine to reach (float32) of each pair, ``(N,)``.
        edit: Changes the positives anew in each epoch.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    targets: NDArray[Any] | None = None
    edit: Edit | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def digest(self) -> str:
        """Digest of sentences and targets."""
        targets = [] if self.targets is None else self.targets.tolist()
        return digest([sentences_digest(column) for column in self.columns], targets)

    @property
    def needs_dropout(self) -> bool:
        """Whether positives are the sentences themselves."""
        return self.edit is None and self.columns[1:2] == self.columns[:1]

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement, in their order."""
        if size >= len(self):
            return self
        numbers = sorted(Stream(seed, "subset").python().sample(range(len(self)), size))
        columns = [tuple(column[i] for i in numbers) for column in self.columns]
        targets = None if self.targets is None else self.targets[numbers]
        return replace(self, columns=tuple(columns), targets=targets)


@dataclass(frozen=True)
class Source:
    """What examples are made from.

    Args:
        corpus: Sentences; not needed for Sentence-BERT and the positive ``entailment``.
        nli: NLI pairs, see :func:`flowbert.data.nli.load_nli`.
        tasks: Measured tasks, of which the first has the labels for the objective ``cosine``.
        positive: For SimCSE: ``dropout`` (the sentence again, under another dropout mask);
            ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it); ``mlm`` (words replaced
            by a masked language model); ``next_sentence`` (of the corpus); ``entailment`` (of an
            NLI premise).
        positive_rate: Share of the words that ``crop``, ``word_deletion`` and ``mlm`` change.
        mlm_path: Folder or hub name of the masked language model.
        hard_negatives: Of the positive ``entailment``: a premise's contradiction is its hard
            negative; premises without one are left out.
        objective: Of Sentence-BERT: ``softmax`` takes NLI pairs, ``triplet`` NLI triples,
            ``cosine`` pairs with scores.
        drop_overlap: Leave out labelled pairs that are measured, in place of an error.
    """

    corpus: Corpus | None = None
    nli: str = "hub"
    tasks: Sequence[Any] = ()
    positive: str = "dropout"
    positive_rate: float = 0.1
    mlm_path: str | None = None
    hard_negatives: bool = True
    objective: str = "softmax"
    drop_overlap: bool = False

    def pairs(self, note: str = "", edit: Edit | None = None) -> Examples:
        """Every sentence of the corpus with itself, or an edit of it, as its positive."""
        corpus = _corpus(self)
        return Examples(corpus.name + note, (corpus.sentences,) * 2, edit=edit)

    def edited_pairs(self, edit: Edit) -> Examples:
        """Every sentence of the corpus with an edit of it."""
        return self.pairs(f", {self.positive} {self.positive_rate}", edit)


def _corpus(source: Source) -> Corpus:
    if source.corpus is None:
        raise ValueError("corpus: received None; expected a Corpus")
    return source.corpus


def _next_sentence(source: Source) -> Examples:
    corpus = _corpus(source)
    columns = (corpus.sentences[:-1], corpus.sentences[1:])
    return Examples(f"{corpus.name}, next sentence", columns)


def _word_edit(source: Source) -> Examples:
    return source.edited_pairs(word_edit(source.positive, source.positive_rate))


def _mlm(source: Source) -> Examples:
    if source.mlm_path is None:
        raise UserError(
            "mlm_path: received nothing; expected a masked language model for positive mlm"
        )
    return source.edited_pairs(MaskedReplacement(source.mlm_path, source.positive_rate))


def _entailment(source: Source) -> Examples:
    if source.corpus is not None and source.corpus.name != "nli":
        raise UserError(
            f"corpus: received {source.corpus.name!r}; expected nli with positive entailment"
        )
    if source.hard_negatives:
        return _nli_triples(source)
    data = load_nli(source.nli)
    numbers = [i for i, label in enumerate(data.labels) if label == "entailment"]
    premises = tuple(data.premises[i] for i in numbers)
    hypotheses = tuple(data.hypotheses[i] for i in numbers)
    return Examples("NLI entailments", (premises, hypotheses))


def _nli_triples(source: Source) -> Examples:
    triples = load_nli(source.nli).triples()
    if not triples:
        raise UserError(
            f"nli: received {source.nli}; expected premises with both an entailment and a "
            "contradiction"
        )
    return Examples("NLI triples", tuple(zip(*triples, strict=True)))


def _nli_pairs(source: Source) -> Examples:
    data = load_nli(source.nli)
    targets = np.array([LABELS.index(label) for label in data.labels])
    return Examples("NLI pairs", (data.premises, data.hypotheses), targets)


def _scored_pairs(source: Source) -> Examples:
    task = source.tasks[0]
    labels = list(task.labels())
    for measured in source.tasks:
        where = f"{measured.name} {measured.split}"
        labels = without_overlap(labels, measured.pairs(), where, source.drop_overlap)
    if not labels:
        raise UserError(
            f"tasks: received {task.name} first; expected a task with labelled pairs beside those "
            "measured"
        )
    first = tuple(text for subset in labels for text in subset.sentences1)
    second = tuple(text for subset in labels for text in subset.sentences2)
    scores = np.concatenate([subset.scores for subset in labels]) / MAX_SCORE
    return Examples(f"{task.name} train", (first, second), scores.astype(np.float32))


POSITIVES: dict[str, Callable[[Source], Examples]] = {
    "dropout": Source.pairs,
    **dict.fromkeys(WORD_EDITS, _word_edit),
    "next_sentence": _next_sentence,
    "mlm": _mlm,
    "entailment": _entailment,
}
"""Pairs or triples of SimCSE by positive; a new one is a function and its entry."""

OBJECTIVES: dict[str, Callable[[Source], Examples]] = {
    "softmax": _nli_pairs,
    "cosine": _scored_pairs,
    "triplet": _nli_triples,
}
"""Pairs or triples of Sentence-BERT by objective."""


def make_examples(
    method: str, corpus: Corpus | None = None, **options: Any
) -> Examples:
    """Examples for a method that trains an encoder.

    Args:
        method: ``simcse``, ``sbert`` or ``mlm``.
        corpus: Sentences.
        **options: Further arguments of :class:`Source`.

    Raises:
        UserError: If an option is unknown, or the data lack what it needs.

    Example:
        >>> examples = make_examples("sbert", nli="builtin-sample", objective="triplet")
        >>> len(examples), len(examples.columns)
        (4000, 3)
    """
    source = Source(corpus, **options)
    check_limits(positive_rate=source.positive_rate)
    if method == "mlm":
        return Examples(_corpus(source).name, (_corpus(source).sentences,))
    table, option = POSITIVES, "positive"
    if method == "sbert":
        table, option = OBJECTIVES, "objective"
    value = getattr(source, option)
    if value not in table:
        raise UserError(f"{option}: received {value!r}; {choices(table, value)}")
    return table[value](source)
