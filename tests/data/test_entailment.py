"""Entailment labels with splits: SICK's own, and premises of NLI pairs parted by a seed."""

import json
import random
import re
from pathlib import Path

import pytest

from flowbert.data.entailment import load_entailment
from flowbert.data.nli import LABELS
from flowbert.data.sts import load_task
from flowbert.errors import UserError

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
LINES = ["1\tA  boy\tA girl\t3.4\tNEUTRAL", "2\tX\tY\t1\tENTAILMENT", "3\tX\tZ\t2\tCONTRADICTION"]


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    """A made-up SentEval folder with SICK."""
    (tmp_path / "SICK").mkdir()
    for split, name in FILES.items():
        lines = [line.replace("\tX\t", f"\tX {split}\t") for line in LINES]
        (tmp_path / "SICK" / name).write_text("\n".join([HEADER, *lines]) + "\n")
    return tmp_path


def write_pairs(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    keys = ("premise", "hypothesis", "label")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    return path


def made_pairs(premises: int, each: int = 3) -> list[tuple[str, str, str]]:
    return [(f"p{n}", f"h{n} {k}", LABELS[k % 3]) for n in range(premises) for k in range(each)]


def test_sick_has_splits_of_its_own(senteval: Path) -> None:
    task = load_entailment("SICKR", senteval)
    assert task.name == "SICKR"
    assert {split: data.labels for split, data in task.splits.items()} == dict.fromkeys(
        FILES, ("neutral", "entailment", "contradiction")
    )
    assert task.splits["dev"].premises == ("A boy", "X dev", "X dev")
    assert task.splits["dev"].hypotheses == ("A girl", "Y", "Z")


def test_sentences_are_those_of_the_relatedness_task(senteval: Path) -> None:
    """So both are one corpus, and a map is fitted once for both."""
    assert load_entailment("SICKR", senteval).sentences() == load_task("SICKR", senteval).sentences()


def test_no_premise_is_in_two_splits(tmp_path: Path) -> None:
    rows = made_pairs(40)
    task = load_entailment(str(write_pairs(tmp_path / "mine.jsonl", rows)))
    premises = {split: set(data.premises) for split, data in task.splits.items()}
    assert task.name == "mine"
    assert {split: len(found) for split, found in premises.items()} == {"train": 32, "dev": 4, "test": 4}
    assert len(set.union(*premises.values())) == 40
    pairs = [row for d in task.splits.values() for row in zip(d.premises, d.hypotheses, d.labels, strict=True)]
    assert sorted(pairs) == sorted(rows)


def test_the_order_of_the_file_plays_no_role(tmp_path: Path) -> None:
    rows = made_pairs(30)
    shuffled = random.Random(0).sample(rows, len(rows))
    one, other = (
        load_entailment(str(write_pairs(tmp_path / name, found)))
        for name, found in (("a.jsonl", rows), ("b.jsonl", shuffled))
    )
    for split in FILES:
        assert set(one.splits[split].hypotheses) == set(other.splits[split].hypotheses)


@pytest.mark.parametrize(
    ("source", "senteval", "message"),
    [
        ("SICK-R", None, "no entailment labels of a task 'SICK-R'; allowed: SICKR, SAMPLE (did you mean 'SICKR'?), or"),
        ("STSB", "somewhere", "no entailment labels of a task 'STSB'; allowed: SICKR, SAMPLE, or a file of NLI pairs"),
        ("SICKR", None, "senteval: received no folder; allowed for entailment labels of SICKR: a SentEval folder"),
        ("SICKR", "hub", "senteval: received 'hub', where SICKR has relatedness scores alone; allowed"),
        ("SICKR", "nowhere", "nowhere: no such SentEval folder"),
        ("few.jsonl", None, "few.jsonl: 9 different premises; allowed: at least 10, for three splits"),
        ("one.jsonl", None, "one.jsonl: all labels to train on are neutral; allowed: at least two of entailment, neut"),
        ("missing.jsonl", None, "missing.jsonl"),
    ],
)
def test_mistakes_are_one_line(
    source: str, senteval: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "few.jsonl", made_pairs(9))
    write_pairs(tmp_path / "one.jsonl", [(f"p{n}", "h", "neutral") for n in range(20)])
    with pytest.raises(UserError, match=re.escape(message)) as error:
        load_entailment(source, senteval)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEADER, LINES[0].replace("NEUTRAL", "NEUTRL")],
            "SICK_trial.txt:2: entailment_judgment is 'NEUTRL'; allowed: ENTAILMENT, NEUTRAL, CONTRADICTION (did you",
        ),
        ([HEADER], "SICK_trial.txt: no pair, only a header; allowed: at least one"),
        (["a\tsentence_A\tsentence_B", "1\tA\tB"], "no column 'entailment_judgment'; allowed: a, sentence_A, sent"),
        ([HEADER, "1\tA\t \t2\tNEUTRAL"], "SICK_trial.txt:2: column 'sentence_B' is empty"),
    ],
)
def test_bad_lines_of_sick_are_named(lines: list[str], message: str, senteval: Path) -> None:
    (senteval / "SICK" / FILES["dev"]).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=re.escape(message)):
        load_entailment("SICKR", senteval)
