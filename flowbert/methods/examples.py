"""Sentences, pairs and triples that encoders are trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from random import Random
from typing import Any

from numpy.typing import NDArray

from flowbert.data.corpus import Corpus, draw_indices, load_corpus
from flowbert.io import digest, sentences_digest
from flowbert.registry import Registry

Edit = Callable[[Sequence[str], Sequence[Random]], list[str]]
"""Edited sentences from B sentences and a random generator for each."""

SOURCES = ("corpus", "nli", "tasks")
"""Sources of examples."""

_EXTRAS = (
    *("sentences", "crop", "word_deletion", "delete_one_word", "mlm"),
    *("next_sentence", "entailment", "hypothesis", "triplet", "softmax", "cosine"),
)


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
        """Whether positives are the sentences themselves."""
        return self.edit is None and self.columns[1:2] == self.columns[:1]

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement, in their order."""
        indices = draw_indices(len(self), size, seed)
        columns = [tuple(column[i] for i in indices) for column in self.columns]
        targets = None if self.targets is None else self.targets[indices]
        return replace(self, columns=tuple(columns), targets=targets)


EXAMPLES: Registry[Callable[..., Examples]] = Registry(
    "examples",
    given=SOURCES,
    extras={
        name: f"flowbert.extras.methods.further_examples.{name}" for name in _EXTRAS
    },
)
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
        text: What the examples are, with options. ``sentences`` for masked language
            modelling. Pairs for SimCSE, see :func:`simcse_examples`. For Sentence-BERT:
            ``softmax`` (NLI pairs with labels), ``triplet`` (NLI triples) or ``cosine`` (the
            labelled pairs of the first task, with scores scaled to 0 to 1).
        corpus: Sentences, as of :func:`flowbert.data.corpus.load_corpus`, where the examples are
            made of any.
        nli: NLI pairs, see :func:`flowbert.data.nli.load_nli`; default ``hub``.
        tasks: Measured tasks, of which the first has the labels for ``cosine``.
        argument: Name of the text in messages.

    Raises:
        UserError: If the text names no examples, or the data lack what they need.

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
        corpus = load_corpus(corpus)
    sources = {"corpus": corpus, "nli": nli or "hub", "tasks": tasks}
    made = {name: source for name, source in sources.items() if name in read}
    return function(**made, **options)


def simcse_examples(positive: str = "dropout") -> str:
    """The examples of SimCSE.

    Args:
        positive: Positive of a sentence: ``dropout`` (the sentence again, under another dropout
            mask); ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it, with a share of
            the words as in ``crop:rate=0.1``); ``mlm:path=DIR`` (the share ``rate`` of the
            words replaced by a masked language model); ``next_sentence`` (of the same document of
            a file, which a blank line ends); ``entailment`` (of an NLI premise, with a
            contradiction as hard negative, or with ``hard_negatives=false`` without);
            ``hypothesis`` (each of an NLI premise, whatever its label: only the pairing is used).
    """
    return positive


@EXAMPLES.register("dropout")
def _same_sentences(corpus: Corpus) -> Examples:
    return Examples(corpus.name, (corpus.sentences, corpus.sentences))
