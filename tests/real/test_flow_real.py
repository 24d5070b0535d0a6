"""The figures that docs/real-run.md gives, on the tasks that fit fast."""

from pathlib import Path

import pytest

from flowbert.cli import main
from flowbert.evaluation.results import load_results


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "task", "raw", "at_least"),
    [
        ("flow_target", "STS16", 62.25, 71.9),
        ("flow_target", "STS13", 50.93, 69.2),
        ("flow_target_paper", "STS13", 50.89, 67.5),
    ],
)
def test_flow_beats_raw_as_documented(
    config: str, task: str, raw: float, at_least: float, real: Path, tmp_path: Path
) -> None:
    root = Path(__file__).parents[2]
    options = {
        "--config": str(root / "configs" / f"{config}.yaml"),
        "--encoder.path": str(real / "models" / "minilm-mlm"),
        "--tasks": task,
        "--senteval": str(real / "data" / "senteval"),
        "--run_dir": str(tmp_path / "run"),
        "--trainer.enable_progress_bar": "false",
    }
    main(["fit", *(word for pair in options.items() for word in pair)])
    rows, _ = load_results(tmp_path / "run" / "results.json")
    figures = {row.method: 100 * row.spearman for row in rows if row.aggregation == "wmean"}
    assert figures["raw"] == pytest.approx(raw, abs=0.02)
    assert figures["flow"] >= at_least
