"""The benchmarks run; small sizes, no figure of theirs is looked at."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks.growth import STAGES, Size, measure, vectors
from benchmarks.harness import (
    BEGIN,
    END,
    NotMeasured,
    Setting,
    bfloat16_is_fast,
    table,
)
from flowbert.vectors import write_vectors

pytestmark = pytest.mark.filterwarnings("ignore")  # as python -m benchmarks

SMALL = ("flow_step", "bootstrap", "uniformity", "whitening")
NEED_REAL = ("encoding", "cold", "evaluation", "simcse", "seven_tasks")


@pytest.mark.slow
def test_the_command_writes_results_and_page(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("FLOWBERT_REAL", raising=False)
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    options = ["--threads", "1", "--scale", "0.001", "--output", str(results)]
    command.main([*options, "--only", *SMALL[:2], *NEED_REAL])
    command.main([*options, "--only", *SMALL[1:], "--page", str(page)])
    records = json.loads(results.read_text())
    names = {record["benchmark"]: None for record in records if "reason" not in record}
    assert [*names] == [*SMALL]
    text = table(records)
    assert page.read_text() == (f"before\n{BEGIN}\n\n{text}\n\n{END}\nafter\n")
    assert text in capsys.readouterr().out
    assert text.count("needs FLOWBERT_REAL") == len(NEED_REAL)


@pytest.mark.real
@pytest.mark.slow
def test_encoding(real):
    from benchmarks.encoding import rows

    made = rows(Setting(real=real, scale=0.01))
    row = next(made)
    assert row.name == "encode, float32"
    assert row.floor > 0
    if not bfloat16_is_fast():
        with pytest.raises(NotMeasured):
            list(made)


@pytest.mark.parametrize("stage", STAGES)
def test_growth(stage, tmp_path):
    size = Size(tmp_path, 500, 8)
    write_vectors(size.vectors, lambda _: vectors(500, 8), 500)
    row = measure(stage, size)
    assert row["items"] == (20 if stage == "encoding" else 500)
    assert row["peak"] >= row["own"] >= row["before"] > 0
