"""Layers chosen on dev are reported on test, beside what test would have chosen."""

import pytest

from flowbert.evaluation.results import Row
from flowbert.evaluation.sweep import best_layers


def row(layers: str, split: str, spearman: float, task: str = "STSB", method: str = "raw", seed: int = 0) -> Row:
    return Row(method, "enc", layers, "mean", "none", task, split, "wmean", spearman, 9, 0.1, -2.0, 0.3, seed)


def test_dev_chooses_and_test_reports() -> None:
    rows = [row("1", "dev", 0.8), row("2", "dev", 0.7), row("1", "test", 0.5), row("2", "test", 0.6)]
    (choice,) = best_layers(rows)
    assert (choice.by_dev, choice.dev, choice.test) == ("1", 0.8, 0.5)
    assert (choice.by_test, choice.test_best, choice.settings) == ("2", 0.6, 2)
    assert choice.text().startswith("raw: best by dev (STSB) 1: dev 80.00, test 50.00; best by test 2: test 60.00")
    assert choice.text().endswith("(of 2 settings of enc, mean)")  # several encoders have a line each


def test_tasks_without_dev_count_in_the_test_average_and_seeds_are_averaged() -> None:
    rows = [row(layers, "dev", 0.5 + int(layers) / 10) for layers in "12"]
    rows += [row(layers, "test", value, "STS16") for layers, value in (("1", 0.9), ("2", 0.1))]
    rows += [row(layers, "test", 0.5, seed=seed) for layers in "12" for seed in (0, 1)]
    (choice,) = best_layers(rows)
    assert (choice.by_dev, choice.dev_tasks) == ("2", ("STSB",))
    assert choice.test == pytest.approx((0.1 + 0.5) / 2)
    assert choice.test_best == pytest.approx((0.9 + 0.5) / 2)


def test_one_setting_or_one_split_is_no_choice() -> None:
    assert best_layers([row("1", "dev", 0.8), row("1", "test", 0.5)]) == []
    assert best_layers([row("1", "test", 0.8), row("2", "test", 0.5)]) == []
