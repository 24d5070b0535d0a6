"""Mistakes of users: one line that names the file or argument and the value received."""

import re
from typing import Any

import pytest

from flowbert.data.corpus import load_corpus
from flowbert.data.nli import load_nli
from flowbert.data.scored_pairs import load_sts
from flowbert.data.text_files import as_list
from flowbert.extras.tasks.answers import load_answers
from flowbert.extras.tasks.probe import load_entailment
from flowbert.tasks import Pairs, load_tasks
from helpers import refused, warned

from .conftest import write

READERS = {
    "corpus": lambda path: load_corpus(str(path)),
    "pairs": lambda path: load_sts(str(path), score_range=(0, 5)),
    "nli": lambda path: load_nli(str(path)),
    "entailment": lambda path: load_entailment(str(path)),
    "answers": load_answers,
}
PAIRS = "sentence1,sentence2,score\na,b,1\n"
NLI = '{"premise": "p", "hypothesis": "h", "label": "neutral"}\n'
ANSWERS = "qtext,label,atext\nWho ?,1,Ada .\n"
FILES = [
    ("corpus", "caption.txt", None, "(did you mean 'captions.txt'?)"),
    ("corpus", "folder.txt", None, "is a folder"),
    ("corpus", "a.doc", "a\n", "received '.doc'; expected .txt, .csv"),
    ("corpus", "a.txt", "", "blank ones only"),
    ("corpus", "a.txt", b"good\nbad \xff\n", "line 2 is not UTF-8"),
    ("corpus", "a.txt", "one\n".encode("utf-16"), "line 1 is not UTF-8"),
    ("corpus", "a.csv", "A first sentence\nA second\n", "'A first sentence'; expected"),
    ("corpus", "a.csv", 'text\na\n"open\nb\n', "EOF inside string starting at row 2"),
    (
        "corpus",
        "a.jsonl",
        '{"text": "a"}\n["b"]\n',
        "line 2: ['b']; expected an object",
    ),
    ("corpus", "a.jsonl", '{"text": "a"}\n{"text": 3}\n', "line 2: text is 3"),
    ("corpus", "a.parquet", "PAR1 but not really", "not parquet"),
    (
        "pairs",
        "a.csv",
        PAIRS + "c,d,2,3\n",
        "Expected 3 fields in line 3, saw 4",
    ),
    ("pairs", "a.csv", PAIRS.replace("1,", "_1,"), "(did you mean 'sentence_1'"),
    ("pairs", "a.csv", PAIRS + "c,d,nan\n", "line 3: score is 'nan'"),
    ("pairs", "a.csv", PAIRS + "c,d,1.0\n", "expected two or more different scores"),
    (
        "nli",
        "a.jsonl",
        NLI + NLI.replace("neutral", "neutrl"),
        "line 2: label is 'neutrl'",
    ),
    ("nli", "a.jsonl", NLI.replace("neutral", "-"), "no pair has a gold label"),
    (
        "nli",
        "a.jsonl",
        NLI.replace("premise", "text"),
        "or premise, hypothesis, label or",
    ),
    ("entailment", "a.jsonl", NLI * 20, "1 premises; expected 10"),
    ("answers", "a.csv", ANSWERS, "every label is True"),
]


@pytest.mark.parametrize(("reader", "name", "content", "message"), FILES)
def test_files(reader, name, content, message, tmp_path):
    write(tmp_path / "captions.txt", "a")
    (tmp_path / "folder.txt").mkdir()
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(f"{re.escape(str(path))}: .*{re.escape(message)}", READERS[reader], path)


INVALID = (
    'sentence1;sentence2;score\r\n"a\nb";;3\r\n\r\nc;d;11\r\ne;f;1\r\ng;h\r\n;i;\r\n'
)


def test_invalid_rows_are_reported_together_or_left_out(tmp_path):
    """Line numbers count blank ones; a row whose fields have several lines counts as one."""
    path = tmp_path / "pairs.csv"
    path.write_bytes(f"{INVALID}j;k;10\r\n".encode())
    options: dict[str, Any] = {"tasks": str(path), "score_range": (1, 10)}
    message = (
        "4 of 6 rows are invalid: line 2: sentence2 is ''; expected a sentence, "
        "line 4: score is '11'; expected a finite number from 1 to 10, "
        r"line 6: score is ''; expected a finite number .*, and 1 more \("
    )
    refused(message, load_tasks, **options)
    with warned("4 of 6 rows are invalid and left out"):
        task: Any = load_tasks(**options, skip_invalid=True)[0]
    assert task.pairs() == (("e", "j"), ("f", "k"))
    assert task.data.score_range == (1, 10)


INPUT, GOLD = (f"STS/STS13-en-test/STS.{kind}.OnWN.txt" for kind in ("input", "gs"))
SICK = "SICK/SICK_trial.txt"
HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness-score\tlabel"


@pytest.mark.parametrize(
    ("load", "file", "row", "line", "message"),
    [
        (load_sts, GOLD, 1, "4\n2", "has 3 lines; expected 4"),
        (load_sts, INPUT, 3, "one", "row 3: sentence2 is nan; expected text"),
        (
            load_sts,
            SICK,
            3,
            "1\tA\tB\t0.5\tNEUTRAL",
            "row 2: relatedness_score is '0.5'",
        ),
        (load_sts, SICK, 1, HEADER, "(did you mean 'relatedness-score'?)"),
        (
            load_entailment,
            SICK,
            3,
            "1\tA\tB\t2\tNEUTRL",
            "row 2: entailment_judgment is",
        ),
    ],
)
def test_senteval_folders(load, file, row, line, message, senteval):
    path = senteval / file
    task = {INPUT: "STS13", GOLD: "STS13", SICK: "SICKR"}[file]
    lines = path.read_text().split("\n")
    lines[row - 1] = line
    path.write_text("\n".join(lines))
    # The option columns is for files of pairs.
    refused(f"^{path.parent}/.*{re.escape(message)}", load, task, senteval)
    path.unlink()
    refused(f"{path.name}: no such file", load, task, senteval)


def test_a_year_without_any_score(senteval):
    write(senteval / GOLD, "", "", "")
    refused(r"STS\.input\.OnWN\.txt: 0 pairs; expected", load_sts, "STS13", senteval)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: as_list(" , ", "methods"), "methods: received ' , '"),
        (lambda: load_corpus("tagret"), "corpus: received 'tagret'; .* 'target'"),
        (lambda: load_corpus("target"), "corpus: received 'target' without a task"),
        (lambda: load_sts("STB"), "tasks: received 'STB'; .* 'STSB'"),
        (lambda: load_sts("STSB"), "senteval: received nothing"),
        (lambda: load_sts("SAMPLE").split("trial"), "split: received 'trial'"),
        (
            lambda: load_sts("a.csv", columns=["a", "b", "a"]),
            "columns: received a, b, a",
        ),
        *(
            (
                lambda limits=limits: Pairs("ab", "cd", [0, 1], "x", limits).data(),
                "score_range: received .*the lower one first",
            )
            for limits in ([1], [1, 1])
        ),
        (lambda: load_entailment("sickr"), "tasks: received 'sickr' .* 'SICKR'"),
    ],
)
def test_arguments(call, message):
    refused(f"^{message}", call)


@pytest.mark.usefixtures("hub_cache")
def test_hub_out_of_reach(monkeypatch, tmp_path):
    import datasets

    write(tmp_path / "own" / "train.csv", "id,text", "1,one")
    for options, column in (("", "txt"), ("?split=dev", "text")):
        refused(
            r"'text'|split dev",
            load_corpus,
            f"hub:{tmp_path}/own{options}",
            column=column,
        )

    def unreachable(*_, **__):
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    refused(
        r"^hub:mteb/sts12-sts .* reach the Hub \(offline\)", load_sts, "STS12", "hub"
    )
