"""Values of tables: which are taken, and which are refused by file and line."""

from pathlib import Path

import numpy as np
import pytest

from flowbert.data.table import Table, choose_columns, parse_number
from flowbert.errors import UserError


@pytest.mark.parametrize("value", ["abc", "", "nan", float("nan"), "inf", None, True, [1], -0.01, 5.01])
def test_numbers_outside_the_range_are_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"^f\.csv:7: score is .*; allowed: a number from 0 to 5$"):
        parse_number(value, 0, 5, "f.csv:7")


@pytest.mark.parametrize(("value", "number"), [("0", 0.0), (" 2.50 ", 2.5), (5, 5.0), (np.float64(1.5), 1.5)])
def test_numbers_within_the_range_are_taken(value: object, number: float) -> None:
    assert parse_number(value, 0, 5, "f.csv:7") == number


@pytest.mark.parametrize("value", [float("inf"), "nan", "high"])
def test_without_a_range_a_number_must_be_finite(value: object) -> None:
    table = Table(Path("f.csv"), {"score": [1.5, value]}, [2, 4])
    with pytest.raises(UserError, match=r"^f\.csv:4: score is .*; allowed: a finite number$"):
        table.numbers("score")


def test_rows_keep_their_lines() -> None:
    table = Table(Path("f.csv"), {"a": ["x", "y", " "]}, [2, 4, 5]).rows([2, 0])
    assert table.columns == {"a": [" ", "x"]}
    with pytest.raises(UserError, match=r"^f\.csv:5: column 'a' is empty; allowed: a sentence$"):
        table.sentences("a")


def test_the_first_layout_that_is_there_is_chosen() -> None:
    names = ["id", "left", "right"]
    assert choose_columns(names, [("a", "b"), ("left", "right"), ("id",)], "f") == ("left", "right")
    assert choose_columns(["only"], [], "f") == ["only"]
    with pytest.raises(UserError, match=r"^f: no column 'lift'; allowed: id, left, right \(did you mean 'left'\?\)$"):
        choose_columns(names, [("lift",)], "f")
    with pytest.raises(UserError, match=r"^f: the columns are id, left, right; allowed: a, b or c$"):
        choose_columns(names, [("a", "b"), ("c",)], "f")
