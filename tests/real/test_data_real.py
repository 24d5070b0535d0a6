"""The real files: pair counts of every task and subset as in the protocol, corpora and NLI."""

from pathlib import Path

import numpy as np
import pytest

from flowbert.data.corpus import load_corpus
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.readers import read_delimited
from flowbert.data.sts import TASKS, load_task
from flowbert.errors import UserError

pytestmark = pytest.mark.real

SUBSETS = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750},
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {"answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244, "question-question": 209},
    "STSB": {"STSB": 1379},
    "SICKR": {"SICKR": 4927},
}
TOTALS = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STSB": 1379, "SICKR": 4927}
OTHER_SPLITS = {"STSB": {"train": 5749, "dev": 1500}, "SICKR": {"train": 4500, "dev": 500}}


@pytest.fixture
def senteval(real: Path) -> Path:
    return real / "data" / "senteval"


@pytest.mark.parametrize("name", TASKS)
def test_pair_counts_are_those_of_the_protocol(senteval: Path, name: str) -> None:
    task = load_task(name, senteval)
    assert {subset.name: len(subset) for subset in task.split("test")} == SUBSETS[name]
    assert sum(len(subset) for subset in task.split("test")) == TOTALS[name]
    others = {split: len(subsets[0]) for split, subsets in task.splits.items() if split != "test"}
    assert others == OTHER_SPLITS.get(name, {})
    for subset in (subset for subsets in task.splits.values() for subset in subsets):
        assert len(subset.sentences1) == len(subset.sentences2) == len(subset.scores)
        assert np.isfinite(subset.scores).all()
        assert all(sentence == " ".join(sentence.split()) != "" for sentence in subset.sentences1 + subset.sentences2)


def test_every_line_of_stsb_is_a_pair_with_its_own_score(senteval: Path) -> None:
    rows = read_delimited(senteval / "STS" / "STSBenchmark" / "sts-dev.csv")
    (subset,) = load_task("STSB", senteval).split("dev")
    np.testing.assert_array_equal(subset.scores, [float(row[4]) for row in rows])
    assert list(subset.sentences1) == [" ".join(row[5].split()) for row in rows]


def test_white_space_as_senteval_joins_it_changes_no_token(senteval: Path, real: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(real / "models" / "minilm-mlm")
    raw: list[str] = []
    joined: list[str] = []
    for name in ("STS12", "STS13", "STS14", "STS15", "STS16"):
        for subset in load_task(name, senteval).split("test"):
            rows = read_delimited(senteval / "STS" / f"{name}-en-test" / f"STS.input.{subset.name}.txt")
            raw.extend(row[0] for row in rows)
            joined.extend(subset.sentences1)
    assert any(a != b for a, b in zip(raw, joined, strict=True))
    assert tokenizer(raw)["input_ids"] == tokenizer(joined)["input_ids"]


def test_target_corpus_has_every_occurrence(senteval: Path) -> None:
    corpus = load_corpus("target", task="STSB", senteval=senteval)
    assert len(corpus) == 2 * (5749 + 1500 + 1379)
    assert corpus.duplicates == len(corpus) - len(set(corpus.sentences)) > 1000
    assert len(load_corpus("train_only", task="SICKR", senteval=senteval)) == 2 * 4500
    with pytest.raises(UserError, match="task STS12 has no train split, only test; allowed: STSB, SICKR, SAMPLE"):
        load_corpus("train_only", task="STS12", senteval=senteval)


def test_captions(real: Path) -> None:
    corpus = load_corpus(str(real / "data" / "corpora" / "captions.txt"))
    assert (len(corpus), corpus.blank) == (144_546, 0)


def test_answers_by_column(real: Path) -> None:
    pattern = str(real / "data" / "corpora" / "answers-*.csv")
    assert len(load_corpus(pattern, column="atext")) == 1148 + 1517
    with pytest.raises(UserError, match=r"answers-dev\.csv:1: choose a column; allowed: qtext"):
        load_corpus(pattern)


def test_snli(real: Path) -> None:
    data = load_nli(str(real / "data" / "nli" / "snli-*.jsonl"))
    assert (len(data), data.unlabelled) == (19_666, 0)
    assert set(data.labels) == set(LABELS)
    triples = data.triples()
    assert len(triples) == 5883
    corpus = load_corpus("nli", nli=str(real / "data" / "nli" / "snli-*.jsonl"))
    assert len(corpus) == 2 * 19_666
