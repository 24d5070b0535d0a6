"""Answer ranking from both layouts and QNLI's."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.extras.tasks.answers import load_answers
from helpers import warned

from .conftest import write

LINES = ["Who ?,1,Ada .", "Why ?,0,No .", "Who  ?,0,A shoe .", "When ?,1,In 1843 ."]


@pytest.mark.parametrize("header", ["qtext,label,atext", "question,label,answer"])
def test_candidates_are_grouped_by_question(header, tmp_path):
    path = write(tmp_path / "answers.csv", header, *LINES)
    with warned("1 of 3 questions have no answer"):
        data = load_answers(path)
    assert (data.name, data.questions) == ("answers", ("Who ?", "Why ?", "When ?"))
    assert data.answers == ("Ada .", "No .", "A shoe .", "In 1843 .")
    assert data.question_of.tolist() == [0, 1, 0, 2]
    assert data.labels.tolist() == [True, False, False, True]


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("labels", [[0, 1], ["entailment", "not_entailment"]])
def test_in_qnli_zero_is_an_answer(labels, tmp_path):
    names = ["question", "sentence", "label"]
    table = pa.table([["Who ?"] * 2, ["Ada .", "A hat ."], labels], names)
    (tmp_path / "qnli").mkdir()
    path = tmp_path / "qnli" / "validation.parquet"
    pq.write_table(table, path)
    for source in (path, f"hub:{path.parent}"):
        data = load_answers(source)
        assert (data.answers, data.labels.tolist()) == (
            ("Ada .", "A hat ."),
            [True, False],
        )


@pytest.mark.real
def test_real_answers(real):
    with warned("3 of 81 questions"):
        data = load_answers(real / "data" / "corpora" / "answers-dev.csv")
    assert len(data.answers) == 1148
