"""Examples to train encoders on: sentences, pairs and triples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import Corpus, draw_indices, load_corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.errors import UserError, warn
from flowbert.io import digest, sentences_digest
from flowbert.methods.edits import Edit, MaskedReplacement, edit_words
from flowbert.registry import Registry
from flowbert.tasks.sts import training_labels

SOURCES = ("corpus", "nli", "tasks")
"""Sources of examples."""


@dataclass(frozen=True, eq=False)
class Examples:
    """N sentences, pairs or triples.

    Args:
        name: Name for messages and checkpoints.
        columns: One, two or three tuples of N sentences: the sentences; their positives, or the
            second sentences of pairs; their hard negatives.
        targets: Class (int64) or target cosine (float32) of each pair, ``(N,)``.
        edit: Function that edits the positives, in each epoch differently.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    targets: NDArray[Any] | None = None
    edit: Edit | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def sentences(self) -> tuple[str, ...]:
        """The first column."""
        return self.columns[0]

    @cached_property
    def digest(self) -> str:
        """Digest of sentences and targets."""
        values = [] if self.targets is None else self.targets.tolist()
        return digest([sentences_digest(column) for column in self.columns], values)

    @property
    def needs_dropout(self) -> bool:
        """Whether the positives equal the sentences."""
        return self.edit is None and self.columns[1:2] == self.columns[:1]

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement, in their order."""
        indices = draw_indices(len(self), size, seed)
        columns = [tuple(column[i] for i in indices) for column in self.columns]
        targets = None if self.targets is None else self.targets[indices]
        return replace(self, columns=tuple(columns), targets=targets)


EXAMPLES: Registry[Callable[..., Examples]] = Registry("examples", given=SOURCES)
"""Functions that make examples of some of :data:`SOURCES`."""


def make_examples(
    text: str,
    corpus: Any = None,
    *,
    nli: str | None = None,
    tasks: Sequence[Any] = (),
    argument: str = "examples",
) -> Examples:
    """Examples for a method that trains an encoder.

    Args:
        text: Kind of the examples, with options. ``sentences`` for masked language
            modelling. Pairs for SimCSE, see
            :class:`flowbert.options.SimCSEDataOptions`. For Sentence-BERT:
            ``softmax`` (NLI pairs with labels), ``triplet`` (NLI triples) or ``cosine`` (the
            labelled pairs of the first task, with scores scaled to 0 to 1).
        corpus: Sentences, see :func:`flowbert.data.corpus.load_corpus`, or a function that loads
            them; for examples that are made of a corpus.
        nli: NLI pairs, see :func:`flowbert.data.nli.load_nli`; default ``hub``.
        tasks: Measured tasks; the first one has the labels for ``cosine``.
        argument: Name of the argument ``text``, for messages.

    Raises:
        UserError: If the kind is unknown, or the data do not have what it needs.

    Example:
        >>> examples = make_examples("triplet", nli="builtin-sample")
        >>> len(examples), len(examples.columns)
        (4000, 3)
    """
    function, options = EXAMPLES.parse(text, argument)
    read = signature(function).parameters
    if "corpus" in read:
        if corpus is None:
            raise ValueError("corpus: received None; expected sentences")
        corpus = corpus() if callable(corpus) else load_corpus(corpus)
    sources = {"corpus": corpus, "nli": nli or "hub", "tasks": tasks}
    needed = {name: source for name, source in sources.items() if name in read}
    return function(**needed, **options)


@EXAMPLES.register("dropout")
def _same_sentences(corpus: Corpus) -> Examples:
    return Examples(corpus.name, (corpus.sentences, corpus.sentences))


@EXAMPLES.register("sentences")
def sentences(corpus: Corpus) -> Examples:
    """Sentences of the corpus."""
    return Examples(corpus.name, (corpus.sentences,))


@EXAMPLES.register("crop")
def crop(corpus: Corpus, rate: float = 0.1) -> Examples:
    """Sentences with random spans of them."""
    return _edited(corpus, "crop", rate, partial(edit_words, "crop", rate))


@EXAMPLES.register("word_deletion")
def word_deletion(corpus: Corpus, rate: float = 0.1) -> Examples:
    """Sentences with copies that lack a share of the words."""
    edit = partial(edit_words, "word_deletion", rate)
    return _edited(corpus, "word_deletion", rate, edit)


@EXAMPLES.register("delete_one_word")
def delete_one_word(corpus: Corpus) -> Examples:
    """Sentences with copies that lack one word."""
    edit: Edit = partial(edit_words, "delete_one_word", 0.0)
    name = f"{corpus.name}, delete_one_word"
    return Examples(name, (corpus.sentences, corpus.sentences), edit=edit)


@EXAMPLES.register("mlm")
def mlm(corpus: Corpus, path: str, rate: float = 0.1) -> Examples:
    """Sentences with copies in which a masked language model replaces words."""
    return _edited(corpus, "mlm", rate, MaskedReplacement(path, rate))


def _edited(corpus: Corpus, name: str, rate: float, edit: Edit) -> Examples:
    """Sentences with copies in which a share of the words is edited."""
    if not 0 < rate < 1:
        raise UserError(
            f"received {name} with rate={rate}; expected above 0 and below 1",
            argument="positive",
        )
    columns = corpus.sentences, corpus.sentences
    return Examples(f"{corpus.name}, {name} {rate}", columns, edit=edit)


@EXAMPLES.register("next_sentence")
def next_sentence(corpus: Corpus) -> Examples:
    """Sentences with the next one of the same document."""
    indices = corpus.consecutive()
    if not corpus.blank:
        warn(
            f"{corpus.name}: has no blank lines between documents; each sentence is paired "
            "with the next one",
            3,
        )
    first = tuple(corpus.sentences[i] for i in indices)
    second = tuple(corpus.sentences[i + 1] for i in indices)
    return Examples(f"{corpus.name}, next sentence", (first, second))


@EXAMPLES.register("entailment")
def entailment(nli: str, hard_negatives: bool = True) -> Examples:
    """Premises with entailed hypotheses, with or without contradictions."""
    if hard_negatives:
        return triplet(nli)
    data = load_nli(nli)
    indices = [i for i, label in enumerate(data.labels) if label == "entailment"]
    premises = tuple(data.premises[i] for i in indices)
    hypotheses = tuple(data.hypotheses[i] for i in indices)
    return Examples("NLI entailments", (premises, hypotheses))


@EXAMPLES.register("triplet")
def triplet(nli: str) -> Examples:
    """Premises with entailed hypotheses and contradictions."""
    triples = load_nli(nli).triples()
    if not triples:
        raise UserError(
            f"received {nli}; expected premises with both an entailment and a contradiction",
            argument="nli",
        )
    return Examples("NLI triples", tuple(zip(*triples, strict=True)))


@EXAMPLES.register("hypothesis")
def hypothesis(nli: str) -> Examples:
    """Premises with all their hypotheses; labels are ignored."""
    data = load_nli(nli)
    return Examples("NLI hypotheses", (data.premises, data.hypotheses))


@EXAMPLES.register("softmax")
def softmax(nli: str) -> Examples:
    """Premises with their hypotheses, and the indices of the labels."""
    data = load_nli(nli)
    targets = np.array([LABELS.index(label) for label in data.labels])
    return Examples("NLI pairs", (data.premises, data.hypotheses), targets)


@EXAMPLES.register("cosine")
def cosine(tasks: Sequence[Any], drop_overlap: bool = False) -> Examples:
    """Labelled pairs of the first task, with scores scaled to 0 to 1."""
    if not tasks:
        raise UserError(
            "received none; expected one with labelled pairs", argument="tasks"
        )
    task = tasks[0]
    labels = training_labels(
        task, tasks, None, drop_overlap, "another task, or data.drop_overlap", "tasks"
    )
    targets = task.data.relative(labels.scores).astype(np.float32)
    sides = labels.sentences1, labels.sentences2
    return Examples(f"{task.name} train", sides, targets)
