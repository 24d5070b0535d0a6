"""The speed benchmarks run, at sizes that say nothing, and write what the page shows."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig

from benchmarks import __main__ as command
from benchmarks import bootstrap, flow_step, gpu, uniformity
from benchmarks.harness import BEGIN, END, NotMeasured, Setting, table, write_page, write_results

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
TINY = Setting(threads=1, scale=0.02)
MACHINE = {
    "processor": "a CPU",
    "cores": 2,
    "threads": 1,
    "clock": "wall",
    "gpu": None,
    "torch": "2",
    "load_average": 0,
}


@pytest.mark.parametrize("rows", [bootstrap.rows, uniformity.rows])
def test_rows_say_how_long_ours_the_peer_and_the_floor_take(rows: Any) -> None:
    for row in rows(TINY):
        assert 0 < row.floor < row.ours
        assert row.peer > 0


def test_the_flow_stands_beside_pytorch_bertflow() -> None:
    row = next(iter(flow_step.rows(TINY)))
    assert 0 < row.floor < row.ours < row.peer


def test_what_runs_on_a_gpu_runs_on_a_cpu() -> None:
    pytest.importorskip("sentence_transformers")
    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    single, half = gpu.encode_random(TINY, config, "cpu", 30)
    assert "float32" in single.name
    assert "bfloat16" in half.name
    assert min(single.ours, single.peer, single.floor) > 0


def test_what_a_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: Setting) -> list[Any]:
        raise NotMeasured("no GPU")

    monkeypatch.setattr(gpu, "rows", lacking)
    assert command.run(["gpu"], TINY) == [{"benchmark": "gpu", "name": "gpu", "not_measured": "no GPU"}]
    with pytest.raises(NotMeasured, match="FLOWBERT_REAL"):
        TINY.real_folder("models")


def test_a_second_run_replaces_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    def lacking(benchmark: str, name: str, reason: str) -> dict[str, str]:
        return {"benchmark": benchmark, "name": name, "not_measured": reason}

    file = tmp_path / "results.json"
    write_results(file, [lacking("a", "a", "x"), lacking("b", "b", "y")], MACHINE)
    rows = write_results(file, [lacking("b", "b on a GPU", "z")], MACHINE)
    assert [(row["name"], row["not_measured"]) for row in rows] == [("a", "x"), ("b on a GPU", "z")]
    assert json.loads(file.read_text())["rows"] == rows
    assert "| b on a GPU | not measured: z |" in table(rows)


def test_the_table_goes_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, "new")
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="has no lines"):
        write_page(page, "new")


def test_the_page_has_the_markers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
