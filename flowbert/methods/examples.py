"""Sentences, pairs and triples that encoders are trained on, and where positives come from."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import Corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.errors import FlowbertWarning, UserError, check_choice, check_used
from flowbert.io import digest, sentences_digest
from flowbert.methods.augment import WORD_EDITS, Edit, MaskedReplacement, edit_words
from flowbert.seeding import Stream
from flowbert.tasks.labels import training_labels
from flowbert.training.base import check_limits

POSITIVES = ("dropout", *WORD_EDITS, "next_sentence", "mlm", "entailment", "hypothesis")
"""Where positives of SimCSE come from."""

NLI_POSITIVES = ("entailment", "hypothesis")
"""Positives that come from NLI pairs; the others come from a corpus."""

OBJECTIVES = ("softmax", "cosine", "triplet")
"""Objectives of Sentence-BERT."""


@dataclass(frozen=True, eq=False)
class Examples:
    """N sentences, pairs or triples.

    Args:
        name: Name for messages and checkpoints.
        columns: One, two or three tuples of N sentences: the sentences; their positives, or second
            sentences of pairs; their hard negatives.
        targets: Class (int64) or cosine to reach (float32) of each pair, ``(N,)``; or the vector
            to reach (float32) of each sentence, ``(N, D)``, which is not part of the digest.
        edit: Changes the positives anew in each epoch.
        options: What they were made with, by the names of :func:`make_examples`.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    targets: NDArray[Any] | None = None
    edit: Edit | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def digest(self) -> str:
        """Digest of sentences and targets."""
        targets = self.targets
        # Vectors follow from the sentences and a teacher, up to rounding.
        values = [] if targets is None or targets.ndim > 1 else targets.tolist()
        return digest([sentences_digest(column) for column in self.columns], values)

    @property
    def needs_dropout(self) -> bool:
        """Whether positives are the sentences themselves."""
        return self.edit is None and self.columns[1:2] == self.columns[:1]

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement, in their order."""
        if size >= len(self):
            return self
        indices = sorted(Stream(seed, "subset").python().sample(range(len(self)), size))
        columns = [tuple(column[i] for i in indices) for column in self.columns]
        targets = None if self.targets is None else self.targets[indices]
        return replace(self, columns=tuple(columns), targets=targets)


_USED: dict[tuple[str, str], tuple[str, ...]] = {
    ("simcse", "dropout"): ("corpus",),
    ("simcse", "crop"): ("corpus", "positive_rate"),
    ("simcse", "word_deletion"): ("corpus", "positive_rate"),
    ("simcse", "delete_one_word"): ("corpus",),
    ("simcse", "next_sentence"): ("corpus",),
    ("simcse", "mlm"): ("corpus", "positive_rate", "mlm_path"),
    ("simcse", "entailment"): ("nli", "hard_negatives"),
    ("simcse", "hypothesis"): ("nli",),
    ("sbert", "softmax"): ("nli",),
    ("sbert", "cosine"): ("drop_overlap",),
    ("sbert", "triplet"): ("nli",),
    ("mlm", ""): ("corpus",),
    ("distillation", ""): ("corpus", "teacher"),
}
"""Options that make the examples of a method with a positive or an objective."""


def uses(
    method: str,
    corpus: str | None = None,
    positive: str | None = None,
    objective: str | None = None,
) -> tuple[tuple[str, ...], str]:
    """Names of the options of :func:`make_examples` that have an effect.

    Args:
        method: ``simcse``, ``sbert``, ``mlm`` or ``distillation``.
        corpus: Name of the corpus; None if it is not given.
        positive: Positive of SimCSE; None for ``dropout``.
        objective: Objective of Sentence-BERT; None for ``softmax``. Those of other methods need no
            other examples.

    Returns:
        The names, and what the others have no effect on.

    Raises:
        UserError: If the positive or the objective is unknown.

    Example:
        >>> uses("simcse", positive="crop")
        (('positive', 'corpus', 'positive_rate'), 'method simcse with positive crop')
    """
    check_choice("positive", positive or POSITIVES[0], POSITIVES)
    used, where = _USED.get((method, ""), ()), f"method {method}"
    if method == "simcse":
        positive = positive or POSITIVES[0]
        used = ("positive", *_USED[method, positive])
        where += f" with positive {positive}"
    elif method == "sbert":
        objective = objective or OBJECTIVES[0]
        check_choice("objective", objective, OBJECTIVES)
        used = ("objective", *_USED[method, objective])
        where += f" with objective {objective}"
    if corpus == "nli" and "corpus" in used:
        used = (*used, "nli")
    elif corpus == "nli" and positive in NLI_POSITIVES:
        used = (*used, "corpus")  # another word for the same
    return used, where


def make_examples(
    method: str,
    corpus: Corpus | None = None,
    *,
    nli: str | None = None,
    tasks: Sequence[Any] = (),
    positive: str | None = None,
    positive_rate: float | None = None,
    mlm_path: str | None = None,
    hard_negatives: bool | None = None,
    objective: str | None = None,
    drop_overlap: bool | None = None,
    teacher: str | None = None,
) -> Examples:
    """Examples for a method that trains an encoder.

    An option that is given and has no effect is refused.

    Args:
        method: ``simcse``, ``sbert``, ``mlm`` or ``distillation``.
        corpus: Sentences; none for Sentence-BERT and the positives of ``NLI_POSITIVES``.
        nli: NLI pairs, see :func:`flowbert.data.nli.load_nli`; default ``hub``.
        tasks: Measured tasks, of which the first has the labels for the objective ``cosine``.
        positive: For SimCSE: ``dropout`` (the default: the sentence again, under another dropout
            mask); ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it); ``mlm`` (words
            replaced by a masked language model); ``next_sentence`` (of the same
            document of a file: a blank line ends one); ``entailment`` (of an NLI premise);
            ``hypothesis`` (each of an NLI premise, whatever its label: labels are not used, only
            which sentences belong together).
        positive_rate: Share of the words that ``crop``, ``word_deletion`` and ``mlm`` change;
            default 0.1.
        mlm_path: Folder or hub name of the masked language model for the positive ``mlm``.
        hard_negatives: With the positive ``entailment``: use a premise's contradiction as its hard
            negative, and drop premises without one. Default true.
        objective: For Sentence-BERT: ``softmax`` (the default) takes NLI pairs, ``triplet`` NLI
            triples, ``cosine`` pairs with scores. The target cosine is the score scaled to its
            range: 0 for the lowest, 1 for the highest.
        drop_overlap: With the objective ``cosine``: remove labelled pairs that are also test pairs;
            otherwise they are an error. Default false.
        teacher: For distillation: the folder of an encoder, a run or a model with its map. Its
            vectors are the targets, see :func:`flowbert.methods.teach`.

    Raises:
        UserError: If an option is unknown or without effect, or the data lack what it needs.

    Example:
        >>> examples = make_examples("sbert", nli="builtin-sample", objective="triplet")
        >>> len(examples), len(examples.columns)
        (4000, 3)
    """
    check_limits(positive_rate=positive_rate)
    given: dict[str, Any] = {
        "positive": positive,
        "positive_rate": positive_rate,
        "mlm_path": mlm_path,
        "hard_negatives": hard_negatives,
        "objective": objective,
        "drop_overlap": drop_overlap,
        "teacher": teacher,
    }
    name = None if corpus is None else corpus.name
    used, where = uses(method, name, positive, objective)
    check_used({"corpus": name, "nli": nli, **given}, used, where)
    if method == "distillation" and teacher is None:
        raise UserError(
            "received nothing; expected the folder of an encoder, a run or a model to learn from",
            argument="teacher",
        )
    options = {
        name: _DEFAULTS.get(name) if value is None else value
        for name, value in given.items()
        if name in used
    }
    made = _make(corpus, nli or "hub", tasks, options)
    return replace(made, options=options)


_DEFAULTS: dict[str, Any] = {
    "positive": POSITIVES[0],
    "positive_rate": 0.1,
    "hard_negatives": True,
    "objective": OBJECTIVES[0],
    "drop_overlap": False,
}
"""Options that are used and not given."""


def _make(
    corpus: Corpus | None,
    nli: str,
    tasks: Sequence[Any],
    options: Mapping[str, Any],
) -> Examples:
    """Examples by the options that the method uses."""
    objective, positive = options.get("objective"), options.get("positive")
    if objective == "cosine":
        return _scored_pairs(tasks, options["drop_overlap"])
    if objective is not None:
        return _nli_triples(nli) if objective == "triplet" else _nli_pairs(nli)
    if positive == "entailment":
        return _nli_triples(nli) if options["hard_negatives"] else _entailments(nli)
    if positive == "hypothesis":
        data = load_nli(nli)
        return Examples("NLI hypotheses", (data.premises, data.hypotheses))
    if corpus is None:
        raise ValueError("corpus: received None; expected a Corpus")
    if positive == "next_sentence":
        return _next_sentences(corpus)
    sentences = corpus.sentences
    if positive is None:
        return Examples(corpus.name, (sentences,))
    if positive == "dropout":
        return Examples(corpus.name, (sentences, sentences))
    rate = options.get("positive_rate", 0.0)
    edit: Edit = partial(edit_words, positive, rate)
    if positive == "mlm":
        edit = MaskedReplacement(options["mlm_path"], rate)
    name = f"{corpus.name}, {positive}{f' {rate}' if rate else ''}"
    return Examples(name, (sentences, sentences), edit=edit)


def _next_sentences(corpus: Corpus) -> Examples:
    """Each sentence and the next one of the same document."""
    indices = corpus.consecutive()
    if not corpus.blank:
        warnings.warn(
            f"{corpus.name}: has no blank lines between documents; each sentence is paired "
            "with the next one",
            FlowbertWarning,
            stacklevel=3,
        )
    first = tuple(corpus.sentences[i] for i in indices)
    second = tuple(corpus.sentences[i + 1] for i in indices)
    return Examples(f"{corpus.name}, next sentence", (first, second))


def _entailments(nli: str) -> Examples:
    data = load_nli(nli)
    indices = [i for i, label in enumerate(data.labels) if label == "entailment"]
    premises = tuple(data.premises[i] for i in indices)
    hypotheses = tuple(data.hypotheses[i] for i in indices)
    return Examples("NLI entailments", (premises, hypotheses))


def _nli_triples(nli: str) -> Examples:
    triples = load_nli(nli).triples()
    if not triples:
        raise UserError(
            f"received {nli}; expected premises with both an entailment and a contradiction",
            argument="nli",
        )
    return Examples("NLI triples", tuple(zip(*triples, strict=True)))


def _nli_pairs(nli: str) -> Examples:
    data = load_nli(nli)
    targets = np.array([LABELS.index(label) for label in data.labels])
    return Examples("NLI pairs", (data.premises, data.hypotheses), targets)


def _scored_pairs(tasks: Sequence[Any], drop_overlap: bool) -> Examples:
    task = tasks[0]
    labels = training_labels(
        task, tasks, None, drop_overlap, "another task, or data.drop_overlap", "tasks"
    )
    first = tuple(text for subset in labels for text in subset.sentences1)
    second = tuple(text for subset in labels for text in subset.sentences2)
    scores = np.concatenate([subset.scores for subset in labels])
    targets = task.data.relative(scores)
    return Examples(f"{task.name} train", (first, second), targets.astype(np.float32))
