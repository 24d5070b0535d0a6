"""NLI pairs from every layout, their triples, and entailment with splits."""

import json
import random

import datasets
import pytest

from flowbert.data.nli import LABELS, NLIData, load_nli
from flowbert.data.scored_pairs import load_sts
from flowbert.extras.tasks.probe import load_entailment
from helpers import refused

from .conftest import write


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        ("premise hypothesis label", LABELS),
        ("sentence1 sentence2 gold_label", (0, 1, 2)),
    ],
)
def test_layouts_and_labels(tmp_path, header, labels):
    pairs = [("p", "", -1), ("", "h", "-"), *(("p", "h", label) for label in labels)]
    lines = [json.dumps(dict(zip(header.split(), pair, strict=True))) for pair in pairs]
    data = load_nli(str(write(tmp_path / "a.jsonl", *lines)))
    assert vars(data) == vars(NLIData(("p",) * 3, ("h",) * 3, LABELS))


@pytest.mark.usefixtures("hub_cache")
def test_numbers_have_the_names_of_their_file(tmp_path):
    """As ``datasets`` writes them; names of two classes are unknown labels."""

    def sources(names, labels):
        columns = {name: ["text"] * len(labels) for name in ("premise", "hypothesis")}
        data = datasets.Dataset.from_dict({**columns, "label": labels})
        path = tmp_path / str(len(names)) / "train.parquet"
        path.parent.mkdir()
        kind = datasets.ClassLabel(names=names)
        data.cast_column("label", kind).to_parquet(path)
        yield from (str(path), f"hub:{path.parent}")

    names = LABELS[2], LABELS[0], LABELS[1]
    for source in sources(names, [0, 1, 2, -1, 1]):
        assert load_nli(source).labels == (*names, names[1])
    for source in sources(["entailment", "not_entailment"], [0, 1]):
        refused("row 2: label is 'not_entailmen", load_nli, source)


def test_simcse_triples_come_back(tmp_path):
    """The i-th entailment of a premise with its i-th contradiction."""
    lines = ["sent0,sent1,hard_neg", "a,a+1,a-1", "b,b+1,b-1", "a,a+2,a-2"]
    triples = load_nli(str(write(tmp_path / "nli.csv", *lines))).triples()
    assert [",".join(triple) for triple in sorted(triples)] == sorted(lines[1:])


def test_sick_has_splits_of_its_own(senteval):
    relatedness = load_sts("SICKR", senteval)
    splits = load_entailment("SICKR", senteval).splits
    assert list(splits) == ["train", "dev", "test"]
    for split, pairs in splits.items():
        assert pairs.labels == ("neutral", "entailment", "contradiction")
        assert [*pairs.premises, *pairs.hypotheses] == relatedness.sentences([split])


def test_no_premise_is_in_two_splits_whatever_the_order(tmp_path):
    pairs = [f"p{n}\th{n} {name}\t{name}" for n in range(40) for name in LABELS]
    hypotheses = []
    for seed in (0, 1):
        lines = random.Random(seed).sample(pairs, len(pairs))
        path = write(tmp_path / "own.tsv", "premise\thypothesis\tlabel", *lines)
        parts = load_entailment(str(path)).splits.values()
        premises = [set(part.premises) for part in parts]
        assert list(map(len, premises)) == [32, 4, 4]
        assert len(set.union(*premises)) == 40
        hypotheses.append([sorted(part.hypotheses) for part in parts])
    assert hypotheses[0] == hypotheses[1]
    assert sum(map(len, hypotheses[0])) == len(pairs)
