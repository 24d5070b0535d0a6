import random

import pytest

from flowbert.encoders.tokens import plan_batches


@pytest.mark.parametrize("budget", [1, 7, 64, 1000])
def test_budget_counts_padded_tokens_and_every_sentence_is_there(budget: int) -> None:
    rng = random.Random(0)
    lengths = [rng.randint(2, 30) for _ in range(200)]
    batches = plan_batches(lengths, [str(i) for i in range(200)], budget)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_plan_depends_on_the_set_and_not_on_the_order() -> None:
    sentences = ["b", "a", "dd", "c", "ee"]
    lengths = [3, 3, 4, 3, 4]
    plan = [[sentences[i] for i in batch] for batch in plan_batches(lengths, sentences, 7)]
    back = [[sentences[::-1][i] for i in batch] for batch in plan_batches(lengths[::-1], sentences[::-1], 7)]
    assert plan == back


def test_nothing() -> None:
    assert plan_batches([], [], 10) == []
