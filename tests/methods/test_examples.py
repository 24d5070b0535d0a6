"""Examples of all methods, and the edits that make positives."""

from random import Random
from typing import Any

import numpy as np
import pytest

from flowbert.data.corpus import load_corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.sample import sample_encoder_path
from flowbert.methods.edits import WORD_EDITS, MaskedReplacement, edit_words
from flowbert.methods.examples import Examples, make_examples
from flowbert.methods.mlm import MLMModule
from flowbert.tasks import load_tasks
from helpers import refused, warned
from texts import CORPUS, trainable

SENTENCES = CORPUS.sentences
BUILTIN = "builtin-sample"
NLI = {"nli": BUILTIN}


@pytest.fixture(scope="session")
def masked_model(tmp_path_factory):
    """A masked language model with random prediction layers."""
    folder = tmp_path_factory.mktemp("masked")
    MLMModule(trainable()).trained_encoder().save(folder / "model" / "encoder")
    return str(folder)  # as a run has it


@pytest.mark.parametrize("positive", [*WORD_EDITS, "mlm"])
def test_edits_of_the_sentence(positive, masked_model):
    text = positive if positive == "delete_one_word" else f"{positive}:rate=0.3"
    text += f":path=[{masked_model}]" if positive == "mlm" else ""
    examples = make_examples(text, CORPUS)
    assert examples.columns == (SENTENCES, SENTENCES)
    assert not examples.needs_dropout
    edit = examples.edit
    assert edit is not None
    first, again, other = (
        edit(SENTENCES, [Random(seed + i) for i in range(len(SENTENCES))])
        for seed in (0, 0, 1)
    )
    assert first == again != other
    for sentence, text in zip(SENTENCES, first, strict=True):
        words, left = sentence.split(), text.split()
        changed = 1.0 if positive == "delete_one_word" else 0.3 * len(words)
        if positive == "mlm":
            new = sum(a != b for a, b in zip(words, left, strict=True))
            assert new <= max(1, changed + 0.5)
            continue
        assert abs(len(words) - len(left) - changed) <= 0.5  # rounded
        rest = iter(words)
        assert all(word in rest for word in left)  # in their order
        assert positive != "crop" or text in sentence


@pytest.mark.parametrize("name", WORD_EDITS)
@pytest.mark.parametrize("rate", [0.01, 0.99])
def test_a_word_is_left(name, rate):
    rngs = [Random(i) for i in range(3)]
    texts = edit_words(name, rate, ["one", "one two", "a b c d e f"], rngs)
    assert texts[0] == "one"
    assert all(texts)


def test_replacement_ignores_the_batch_and_keeps_the_end(masked_model):
    replace = MaskedReplacement(masked_model, 0.5)
    texts = ["a dog runs home", " ".join(["dog"] * 300)]  # the model reads 128 tokens
    alone = [replace([text], [Random(i)])[0] for i, text in enumerate(texts)]
    assert replace(texts, [Random(0), Random(1)]) == alone
    assert alone[1].split()[130:] == ["dog"] * 170


def test_positives_of_the_data():
    data = load_nli("builtin-sample")
    labelled = zip(data.premises, data.hypotheses, data.labels, strict=True)
    entailed = [(a, b) for a, b, label in labelled if label == "entailment"]
    same = make_examples("dropout", CORPUS)
    following = make_examples("next_sentence", CORPUS)
    triples = make_examples("entailment", **NLI)
    pairs = make_examples("entailment:hard_negatives=false", **NLI)
    assert same.columns == (SENTENCES, SENTENCES)
    assert same.needs_dropout
    assert following.columns == (
        SENTENCES[:99] + SENTENCES[100:-1],
        SENTENCES[1:100] + SENTENCES[101:],
    )
    assert list(zip(*triples.columns, strict=True)) == data.triples()
    assert list(zip(*pairs.columns, strict=True)) == entailed
    every = make_examples("hypothesis", **NLI)
    assert every.columns == (data.premises, data.hypotheses)
    assert every.targets is None
    assert make_examples("sentences", CORPUS).columns == (SENTENCES,)
    softmax = make_examples("softmax", **NLI)
    assert softmax.targets is not None
    assert softmax.columns == (data.premises, data.hypotheses)
    assert [LABELS[target] for target in softmax.targets] == list(data.labels)
    assert len(make_examples("triplet", **NLI).columns) == 3


def test_next_sentences_are_of_a_text(tmp_path):
    def pairs(source, **options):
        corpus = load_corpus(source, **options)
        made = make_examples("next_sentence", corpus)
        return ["".join(pair) for pair in zip(*made.columns, strict=True)]

    (tmp_path / "a.txt").write_text("a\nb\n\n\nc\nd\ne\n \nf\n")
    (tmp_path / "b.txt").write_text("g\nh\n")
    expected = ["ab", "cd", "de", "gh"]
    assert pairs(f"{tmp_path}/*.txt") == expected
    assert pairs([*"ab", "", *"cde", "", "f", "", *"gh"]) == expected
    with warned(r"b\.txt: has no blank line"):
        assert pairs(f"{tmp_path}/b.txt") == ["gh"]
    unordered = [
        ("builtin-sample", {}),
        ("nli", NLI),
        (load_tasks("SAMPLE")[0].corpus("target"), {}),
        (load_corpus("builtin-sample").sample(50, 0), {}),
        (["a", "", "b"], {}),
    ]
    for source, options in unordered:
        refused(r"corpus: received .*follow", pairs, source, **options)


def test_measured_pairs_are_no_labels():
    """Which tests/tasks/test_labels.py has in detail."""
    tasks: list[Any] = load_tasks("SAMPLE", split=["test", "train"])
    (labels,) = tasks[0].labels()
    tasks[1].pairs = lambda: (labels.sentences2[:10], labels.sentences1[:10])
    message = r"tasks: .* of 3000 pairs are measured"
    refused(message, make_examples, "cosine", tasks=tasks)
    with warned("measured in SAMPLE train and left out"):
        made = make_examples("cosine:drop_overlap=true", tasks=tasks)
    assert len(made) < 3000


def test_sample_and_digest():
    columns = (tuple("abcdef"), tuple("ABCDEF"))
    examples = Examples("letters", columns, np.arange(6))
    drawn = examples.sample(4, seed=1)
    assert drawn.targets is not None
    numbers = drawn.targets.tolist()
    assert numbers == sorted({*numbers})
    assert drawn.columns == tuple(tuple(c[i] for i in numbers) for c in columns)
    without = Examples("letters", columns)
    assert len({each.digest for each in (examples, drawn, without)}) == 3


def test_sentences_in_memory():
    examples = make_examples("dropout", ["a dog", "a cat"])
    assert examples.columns == (("a dog", "a cat"),) * 2


MISTAKES = [
    ("crops", {}, "positive: received 'crops'; expected .* 'crop'"),
    ("crop:rate=1", {}, "positive: received crop with rate=1; expected above 0"),
    ("dropout:rate=0.1", {}, "positive: .* received the option 'rate'"),
    ("sentences", {"corpus": None}, "corpus: received None"),
    (
        "cosine",
        {"tasks": load_tasks("SAMPLE", split="train"), "corpus": None},
        "tasks: received none to learn from for SAMPLE",
    ),
    ("mlm:path=./no", {}, "encoder: .*./no"),
    (
        f"mlm:path=[{sample_encoder_path()}]",
        {},
        "positive: received .*tiny-bert; expected a masked language model",
    ),
]


@pytest.mark.parametrize(("text", "options", "message"), MISTAKES)
def test_mistakes(text, options, message):
    with pytest.raises(ValueError, match=message):
        make_examples(text, argument="positive", **{"corpus": CORPUS} | options)


def test_triples_need_contradictions(tmp_path):
    path = tmp_path / "nli.tsv"
    path.write_text("premise\thypothesis\tlabel\na dog\tan animal\tentailment\n")
    refused(f"nli: received {path}", make_examples, "entailment", nli=str(path))
