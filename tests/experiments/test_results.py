"""Results and their file."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.small import WordSums
from flowbert.errors import UserError
from flowbert.experiments import Results, compare
from flowbert.experiments.columns import RESULT_COLUMNS
from flowbert.vectors import EmbeddingCache

FLOW = "flow:levels=1:depth=1:width=4:steps=2"


@pytest.fixture(scope="module")
def results(pairs: list[str]) -> Results:
    """Some figures exist, some do not; some rows have a seed."""
    methods = f"raw,standardization,{FLOW}"
    cache = EmbeddingCache(False)
    made = compare(
        WordSums(), methods, tasks=pairs, bootstrap=20, seeds=[0, 1], cache=cache
    )
    made.frame.loc[made.frame["method"] == "standardization", "value"] = math.nan
    return made


@pytest.fixture
def saved(results: Results, output: Path) -> Path:
    results.save(output)
    return output


def test_what_is_saved_is_loaded(results: Results, saved: Path) -> None:
    loaded = Results.load(saved)
    frames = [each.frame.astype({"seed": "Int64"}) for each in (loaded, results)]
    pd.testing.assert_frame_equal(*frames)
    assert loaded.verdicts == results.verdicts
    assert loaded.record == json.loads(json.dumps(results.record))
    loaded.save(saved.with_name("again.json"))
    assert saved.with_name("again.json").read_bytes() == saved.read_bytes()
    table = pd.read_csv(saved.with_suffix(".csv"), keep_default_na=False)
    assert list(table.columns) == list(RESULT_COLUMNS)
    assert len(table) == len(results.frame)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "0.5"}, "row 1: value is '0.5'"),
        ({"seed": [1]}, r"row 1: seed is \[1\]"),
        ({"pairs": 1.5}, r"row 1: pairs is 1\.5"),
        ({"task": None}, "row 1: task is None"),
        ({"supervised": 1}, "row 1: supervised is 1"),
        ({"other": 1}, "row 1: expected the columns encoder, "),
    ],
)
def test_foreign_rows_are_named(
    change: dict[str, Any], message: str, saved: Path
) -> None:
    content = json.loads(saved.read_text())
    content["rows"][0] |= change
    saved.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message) as caught:
        Results.load(saved)
    assert str(caught.value).startswith(str(saved))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        '{"rows": []}',
        '{"rows": {}, "record": {}}',
        '{"rows": [1], "record": {}}',
        '{"rows": [], "record": {"verdicts": 3}}',
        '{"rows": [], "record": {"verdicts": [3]}}',
        '{"rows": ' + "[" * 10**5,
    ],
)
def test_foreign_files_are_named(text: str | None, output: Path) -> None:
    if text is not None:
        output.write_text(text)
    with pytest.raises(UserError, match=output.name) as caught:
        Results.load(output)
    assert "\n" not in str(caught.value)


def test_damaged_files_are_user_errors_or_readable(saved: Path) -> None:
    content = saved.read_bytes()
    rng = random.Random(0)
    refused = []
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(damaged))
            if rng.random() < 0.5:
                damaged[place] = rng.randrange(256)
            else:
                del damaged[place : place + rng.randint(1, 40)]
        saved.write_bytes(damaged)
        try:
            loaded = Results.load(saved)
            loaded.table()
            assert all(isinstance(line, str) for line in loaded.verdicts)
        except UserError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert not any("\n" in message for message in refused)


def test_figures_by_their_columns(results: Results) -> None:
    frame = results.frame.query("aggregation == 'wmean' and task == 'one'")
    flows = frame[frame["method"] == FLOW]["value"].to_list()
    assert results.score(FLOW, "one") == pytest.approx(np.mean(flows))
    assert results.score(FLOW, "one", seed=1) == flows[1]
    alignment = results.score("raw", "one", "alignment")
    assert 0 < alignment < 4
    for arguments, received in (
        (("raww", "one"), "method: received 'raww'.*'raw'"),
        (("raw", "three"), "task: received 'three'"),
        (("raw", "one", "spearmen"), "metric: received 'spearmen'"),
    ):
        with pytest.raises(UserError, match=received):
            results.score(*arguments)
    with pytest.raises(UserError, match="split: received 'dev'"):
        results.score("raw", "one", split="dev")


def test_tables(results: Results) -> None:
    table = results.table()
    names = ["raw", "standardization", FLOW]
    assert table.index.get_level_values("method").tolist() == names
    assert table.loc[:, ("test", "one")].isna().tolist() == [False, True, False]
    assert table.columns.tolist() == [
        ("test", "one"),
        ("test", "two"),
        ("test", "average"),
    ]
    assert table.iloc[0, 2] == pytest.approx(table.iloc[0, :2].mean())
    assert results.table("alignment").shape == (3, 2)
    assert results.table(aggregation="all").shape == (3, 3)
    assert results.table("uniformity", "mean").empty
