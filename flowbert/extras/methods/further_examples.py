"""Examples of masked language modelling and Sentence-BERT, and further positives of SimCSE.

Edits that make a positive from a sentence are the alternatives to dropout of the SimCSE paper.
Words are what stands between white space. ``flowbert.methods.examples.EXAMPLES`` has the functions
that make examples by their names.

References:
    SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), tables 1 and 2.
    https://arxiv.org/abs/2104.08821
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch

from flowbert.data.corpus import Corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, warn
from flowbert.extras.methods.masking import predictor_above
from flowbert.methods.examples import Edit, Examples
from flowbert.tasks.sts import training_labels


def crop_words(words: Sequence[str], rate: float, rng: Random) -> Sequence[str]:
    """A random span with ``1 - rate`` of the words, at least one.

    Example:
        >>> crop_words(["a", "dog", "runs", "home"], 0.5, Random(0))
        ['dog', 'runs']
    """
    count = max(1, round((1 - rate) * len(words)))
    start = rng.randint(0, len(words) - count)
    return words[start : start + count]


def delete_words(words: Sequence[str], rate: float, rng: Random) -> Sequence[str]:
    """The words without ``rate`` of them, at least one left.

    Example:
        >>> delete_words(["a", "dog", "runs", "home"], 0.5, Random(0))
        ['dog', 'home']
    """
    count = max(1, len(words) - round(rate * len(words)))
    return [words[i] for i in sorted(rng.sample(range(len(words)), count))]


def delete_a_word(words: Sequence[str], _rate: float, rng: Random) -> Sequence[str]:
    """The words without a random one.

    Example:
        >>> delete_a_word(["a", "dog", "runs"], 0.0, Random(0))
        ['a', 'runs']
    """
    index = rng.randrange(len(words))
    return [*words[:index], *words[index + 1 :]]


WORD_EDITS: dict[str, Callable[[Sequence[str], float, Random], Sequence[str]]] = {
    "crop": crop_words,
    "word_deletion": delete_words,
    "delete_one_word": delete_a_word,
}
"""Functions of at least two words, the share of them to change, and a generator."""


def edit_words(
    name: str, rate: float, sentences: Sequence[str], rngs: Sequence[Random]
) -> list[str]:
    """Edit sentences by one of ``WORD_EDITS``; a sentence of one word stays as it is.

    Example:
        >>> edit_words("crop", 0.5, ["a dog runs home", "yes"], [Random(0), Random(0)])
        ['dog runs', 'yes']
    """
    edited = []
    for sentence, rng in zip(sentences, rngs, strict=True):
        words = sentence.split()
        if len(words) > 1:
            sentence = " ".join(WORD_EDITS[name](words, rate, rng))
        edited.append(sentence)
    return edited


class MaskedReplacement:
    """An edit that replaces words by the likeliest ones of a masked language model.

    The likeliest word may be the old one. Words beyond the model's longest input stay.

    Args:
        path: Folder, run folder or hub name of a masked language model with its prediction layers.
        rate: Share of the words to replace, at least one of a sentence.

    Raises:
        UserError: If there is no such model, or it lacks prediction layers or a mask token.
    """

    def __init__(self, path: str, rate: float) -> None:
        encoder = SentenceEncoder(path)
        model, starts_at_random = predictor_above(encoder, seed=0)
        if starts_at_random:
            raise UserError(
                f"received {path}; expected a masked language model with prediction layers",
                argument="positive",
            )
        self._tokenizer: Any = encoder.backbone.tokenizer
        self._model: Any = model.eval()
        self.rate = rate

    @torch.no_grad()
    def __call__(self, sentences: Sequence[str], rngs: Sequence[Random]) -> list[str]:
        """Replace words of B sentences, with a random generator for each."""
        rows = [sentence.split() for sentence in sentences]
        chosen, masked = [], []
        for words, rng in zip(rows, rngs, strict=True):
            count = max(1, round(self.rate * len(words)))
            indices = sorted(rng.sample(range(len(words)), count))
            chosen.append(indices)
            hidden = dict.fromkeys(indices, self._tokenizer.mask_token)
            masked.append(" ".join(hidden.get(i, w) for i, w in enumerate(words)))
        features = self._tokenizer(
            masked, padding=True, truncation=True, return_tensors="pt"
        )
        likeliest = self._model(**features).logits.argmax(-1)
        is_mask = features["input_ids"] == self._tokenizer.mask_token_id
        for words, indices, ids, mask in zip(
            rows, chosen, likeliest, is_mask, strict=True
        ):
            # Fewer masks than indices if the sentence was cut.
            for index, token in zip(indices, ids[mask].tolist(), strict=False):
                words[index] = self._tokenizer.decode([token]).strip() or words[index]
        return [" ".join(words) for words in rows]


OBJECTIVES = ("softmax", "cosine", "triplet")
"""Objectives of Sentence-BERT, which are names of its examples, too."""


def sbert_examples(objective: str = "softmax", drop_overlap: bool = False) -> str:
    """The examples of Sentence-BERT.

    Args:
        objective: The objective.
        drop_overlap: With the objective ``cosine``: remove labelled pairs that are also test pairs;
            otherwise they are an error.
    """
    return f"{objective}:drop_overlap=true" if drop_overlap else objective


def mlm_examples() -> str:
    """The examples of masked language modelling."""
    return "sentences"


def sentences(corpus: Corpus) -> Examples:
    """The sentences."""
    return Examples(corpus.name, (corpus.sentences,))


def crop(corpus: Corpus, rate: float = 0.1) -> Examples:
    """Sentences, and spans of them."""
    return _edited(corpus, "crop", rate, partial(edit_words, "crop", rate))


def word_deletion(corpus: Corpus, rate: float = 0.1) -> Examples:
    """Sentences, with and without a share of their words."""
    edit = partial(edit_words, "word_deletion", rate)
    return _edited(corpus, "word_deletion", rate, edit)


def delete_one_word(corpus: Corpus) -> Examples:
    """Sentences, with and without one of their words."""
    edit: Edit = partial(edit_words, "delete_one_word", 0.0)
    name = f"{corpus.name}, delete_one_word"
    return Examples(name, (corpus.sentences, corpus.sentences), edit=edit)


def mlm(corpus: Corpus, path: str, rate: float = 0.1) -> Examples:
    """Sentences, and with words that a masked language model predicts."""
    return _edited(corpus, "mlm", rate, MaskedReplacement(path, rate))


def _edited(corpus: Corpus, name: str, rate: float, edit: Edit) -> Examples:
    """Sentences whose positives have a share of their words edited."""
    if not 0 < rate < 1:
        raise UserError(
            f"received {name} with rate={rate}; expected above 0 and below 1",
            argument="positive",
        )
    columns = corpus.sentences, corpus.sentences
    return Examples(f"{corpus.name}, {name} {rate}", columns, edit=edit)


def next_sentence(corpus: Corpus) -> Examples:
    """Each sentence and the next one of the same document."""
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


def entailment(nli: str, hard_negatives: bool = True) -> Examples:
    """Premises and hypotheses that they entail, with contradictions or without."""
    if hard_negatives:
        return triplet(nli)
    data = load_nli(nli)
    indices = [i for i, label in enumerate(data.labels) if label == "entailment"]
    premises = tuple(data.premises[i] for i in indices)
    hypotheses = tuple(data.hypotheses[i] for i in indices)
    return Examples("NLI entailments", (premises, hypotheses))


def triplet(nli: str) -> Examples:
    """Premises, hypotheses that they entail, and contradictions."""
    triples = load_nli(nli).triples()
    if not triples:
        raise UserError(
            f"received {nli}; expected premises with both an entailment and a contradiction",
            argument="nli",
        )
    return Examples("NLI triples", tuple(zip(*triples, strict=True)))


def hypothesis(nli: str) -> Examples:
    """Premises and their hypotheses, whatever the labels."""
    data = load_nli(nli)
    return Examples("NLI hypotheses", (data.premises, data.hypotheses))


def softmax(nli: str) -> Examples:
    """Premises and their hypotheses, with the numbers of the labels."""
    data = load_nli(nli)
    targets = np.array([LABELS.index(label) for label in data.labels])
    return Examples("NLI pairs", (data.premises, data.hypotheses), targets)


def cosine(tasks: Sequence[Any], drop_overlap: bool = False) -> Examples:
    """Labelled pairs of the first task, with scores from 0 to 1."""
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
