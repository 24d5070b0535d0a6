"""Answer-ranking files: both shapes, questions without an answer, bad input."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.answers import load_answers
from flowbert.errors import FlowbertWarning, UserError

ANSWERED = ["Who ?,1,Ada .", "When ?,0,A hat .", "Who ?,0,A shoe .", "When ?,1,In 1843 ."]


def write(folder: Path, *lines: str, header: str = "qtext,label,atext") -> Path:
    path = folder / "answers-test.csv"
    path.write_text("".join(line + "\n" for line in (header, *lines)))
    return path


@pytest.mark.parametrize("header", ["qtext,label,atext", "question,label,answer"])
def test_candidates_are_grouped_by_question(header: str, tmp_path: Path) -> None:
    task = load_answers(write(tmp_path, *ANSWERED, header=header))
    assert (task.name, task.questions) == ("answers-test", ("Who ?", "When ?"))
    assert task.answers == ("Ada .", "A hat .", "A shoe .", "In 1843 .")
    assert task.question_of.tolist() == [0, 1, 0, 1]
    assert task.labels.tolist() == [True, False, False, True]
    assert len(task) == 4
    assert task.sentences() == ["Who ?", "When ?", *task.answers]


@pytest.mark.parametrize(("yes", "no"), [("0", "1"), ("entailment", "not_entailment")])
def test_in_qnli_zero_is_the_answer(yes: str, no: str, tmp_path: Path) -> None:
    path = tmp_path / "qnli.tsv"
    lines = ["index\tquestion\tsentence\tlabel", f"0\tWho ?\tAda .\t{yes}", f"1\tWho ?\tA hat .\t{no}"]
    path.write_text("\n".join(lines) + "\n")
    task = load_answers(path)
    assert task.labels.tolist() == [True, False]
    assert task.answers == ("Ada .", "A hat .")


def test_local_copy_of_qnli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "qnli").mkdir()
    columns = {"question": ["Who ?", "Who ?"], "sentence": ["Ada .", "A hat ."], "label": [0, 1], "idx": [0, 1]}
    pq.write_table(pa.table(columns), tmp_path / "qnli" / "validation-00000-of-00001.parquet")
    task = load_answers(f"hub:{tmp_path / 'qnli'}")
    assert (task.name, task.labels.tolist()) == ("QNLI", [True, False])


def test_a_question_without_an_answer(tmp_path: Path) -> None:
    path = write(tmp_path, "Why ?,0,No .", *ANSWERED, "Why ?,0,Nor .")
    found = f"{path}:2: question 'Why ?' has no candidate that answers it"
    with pytest.warns(FlowbertWarning, match=f"^{re.escape(found)}; 1 of 3 such questions are left out of MAP and MRR"):
        kept = load_answers(path)
    assert (len(kept), kept.questions) == (6, ("Why ?", "Who ?", "When ?"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Who ?,1,Ada .", "Who ?,2,A hat ."], ":3: label is '2'; allowed: 1, 0"),
        (["Who ?,1,Ada .", "Who ?,,A hat ."], ":3: label is ''; allowed: 1, 0"),
        (["Who ?,1, ", "Who ?,0,A hat ."], ":2: column 'atext' is empty; allowed: a sentence"),
        (["Who ?,1,Ada .", "Who ?,1,Ada ."], ":2: every pair from here on (2 in all) is an answer; allowed: some of"),
        (["Who ?,0,Ada .", "When ?,0,Ada ."], ":2: every pair from here on (2 in all) is no answer; allowed: some of"),
        (["Who ?,0"], ":2: 2 fields; allowed: 3, as in the header"),
    ],
)
def test_bad_lines(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(UserError, match=f"^{re.escape(str(path) + message)}"):
        load_answers(path)


def test_unknown_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,1", header="q,a,y")
    message = f"{path}:1: the columns are q, a, y; allowed: "
    message += "question, label, answer or qtext, label, atext or question, label, sentence"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_answers(path)
    with pytest.raises(UserError, match="no such file"):
        load_answers(tmp_path / "nothing.csv")


@pytest.mark.real
def test_real_files(real: Path) -> None:
    for name, pairs, questions, without in (("dev", 1148, 81, 3), ("test", 1517, 95, 6)):
        with pytest.warns(FlowbertWarning, match=f"{without} of {questions} such questions"):
            task = load_answers(real / "data" / "corpora" / f"answers-{name}.csv")
        assert (len(task), len(task.questions)) == (pairs, questions)
