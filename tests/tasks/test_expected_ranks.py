"""Measures with equal scores: the expectation over all their orders, by brute force."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.tasks.expected_ranks import (
    expected_average_precision,
    expected_reciprocal_rank,
    reciprocal_rank_in_run,
    runs_of_equal_scores,
)

candidates = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6).filter(
    lambda rows: any(hit for _, hit in rows)
)


def brute(rows: list[tuple[int, bool]], cut: int) -> tuple[float, float, float]:
    """Mean over all orders of equal scores of average precision, reciprocal rank, and the latter cut."""
    figures = []
    for order in permutations(rows):
        if [score for score, _ in order] != sorted((score for score, _ in rows), reverse=True):
            continue
        places = [place for place, (_, hit) in enumerate(order, start=1) if hit]
        precision = np.mean([number / place for number, place in enumerate(places, start=1)])
        figures.append((float(precision), 1 / places[0], 1 / places[0] if places[0] <= cut else 0.0))
    found = np.mean(figures, axis=0)
    return float(found[0]), float(found[1]), float(found[2])


@settings(max_examples=60, deadline=None)
@given(candidates, st.integers(1, 6))
def test_expectations_equal_the_mean_over_all_orders(rows: list[tuple[int, bool]], cut: int) -> None:
    runs = runs_of_equal_scores(np.array([float(score) for score, _ in rows]), np.array([hit for _, hit in rows]))
    first = next(number for number, (_, hits) in enumerate(runs) if hits)
    above = sum(size for size, _ in runs[:first])
    found = (
        expected_average_precision(runs),
        expected_reciprocal_rank(runs),
        reciprocal_rank_in_run(above, *runs[first], cut),
    )
    assert found == pytest.approx(brute(rows, cut), abs=1e-12)


def test_runs_fall_and_count() -> None:
    scores, relevant = np.array([0.1, 0.9, 0.1, 0.5]), np.array([True, False, True, True])
    assert runs_of_equal_scores(scores, relevant) == [(1, 0), (1, 1), (2, 2)]


def test_nothing_relevant_has_reciprocal_rank_zero() -> None:
    assert expected_reciprocal_rank([(3, 0)]) == 0.0
