"""Jobs give the figures of the functions they stand for, as rows."""

from pathlib import Path

import numpy as np
import pytest
import torch

from flowbert.data.answers import load_answers
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation import AnswersJob, RetrievalJob, STSJob, evaluate_task
from flowbert.tasks.base import lexical_rows
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.ranking import rank_answers
from flowbert.tasks.retrieval import retrieval_task, retrieve

COLUMNS = {"method": "m", "encoder": "e", "layers": "last", "pooling": "mean", "corpus": "target", "setting": "s"}
LEFT, RIGHT = (tuple(f"{side} {number}" for number in range(12)) for side in ("left", "right"))
SCORES = np.tile([5.0, 4.5, 1.0], 4)
TASK = STSTask("T", {"test": [Subset("T", LEFT, RIGHT, SCORES)], "train": [Subset("T", LEFT, RIGHT, SCORES)]})


def embed(sentences: object) -> torch.Tensor:
    texts = list(sentences)  # type: ignore[call-overload]
    rows = [torch.randn(4, generator=torch.Generator().manual_seed(sum(text.encode()))) for text in texts]
    return torch.stack(rows)


def double(x: torch.Tensor) -> torch.Tensor:
    return x + 0.5


def test_sts_rows_are_those_of_evaluate_task() -> None:
    job = STSJob(TASK)
    measured = job.measure(job.prepare(embed), double, COLUMNS)
    expected = evaluate_task(TASK, "test", embed, double)
    assert [row.spearman for row in measured.rows] == [expected.all, expected.mean, expected.wmean]
    assert {row.setting for row in measured.rows} == {"s"}
    assert len(measured.kept[0]) == 12


def test_retrieval_rows() -> None:
    job = RetrievalJob(TASK)
    measured = job.measure(job.prepare(embed), double, COLUMNS)
    expected = retrieve(retrieval_task(TASK), embed, double)
    values = {row.metric: row.value for row in measured.rows}
    assert values == {**{f"recall@{cut}": value for cut, value in expected.recall.items()}, "mrr@10": expected.mrr}
    assert {row.pairs for row in measured.rows} == {8}
    names, best = job.scored()
    assert [float(each.mean()) for each in measured.kept] == [values[name] for name in names]
    assert all((kept <= most).all() for kept, most in zip(measured.kept, best, strict=True))


def test_answer_rows(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("qtext,label,atext\n" + "".join(f"q{i // 3},{int(i % 3 == 0)},a{i}\n" for i in range(12)))
    job = AnswersJob(load_answers(path))
    measured = job.measure(job.prepare(embed), None, COLUMNS)
    expected = rank_answers(job.task, embed)
    assert [(r.metric, r.value) for r in measured.rows] == [
        ("auc", expected.auc),
        ("map", expected.map),
        ("mrr", expected.mrr),
    ]
    assert job.corpus("target").sentences == tuple(job.task.sentences())
    with pytest.raises(UserError, match="'train_only': task answers has no train split"):
        job.corpus("train_only")


def test_a_job_learns_from_other_pairs_than_it_measures() -> None:
    assert STSJob(TASK).labelled() == TASK.splits["train"]
    assert STSJob(TASK, "train").labelled() == []


def test_lexical_rows_have_gold_and_every_method() -> None:
    pairs = ScoredPairs("T", "test", ("T",), (SCORES,), {"s": (np.arange(12.0),)})
    gold, method = lexical_rows(pairs, -np.arange(12.0), "words", {"s": COLUMNS})
    assert (gold.method, gold.metric, method.method) == ("gold", "edit_distance_words", "m")
    assert method.value == pytest.approx(-1)
