"""``curve``: table, picture and figures of several runs."""

import csv
from pathlib import Path

import pytest

from flowbert.cli.main import main

HEAD = "step," + ",".join(
    f"{m}/STSB/dev/{x}" for m in ("raw", "simcse") for x in ("spearman_all", "alignment", "uniformity")
)


def _run(folder: Path, figures: list[float], every: int = 10) -> str:
    folder.mkdir()
    lines = [f"{every * (i + 1) - 1},0.5,0.2,-2,{figure},0.3,{-3 - i}" for i, figure in enumerate(figures)]
    (folder / "metrics.csv").write_text("\n".join([HEAD, *lines, ""]))
    return str(folder)


def test_two_runs_with_one_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [_run(tmp_path / "one", [0.6, 0.7]), _run(tmp_path / "two", [0.65, 0.66], every=5)]
    main(["curve", "--runs", ",".join(runs), "--output", str(tmp_path / "c.svg")])
    text = capsys.readouterr().out
    assert text.count("| raw |") == 1
    assert "| one | simcse | 20 | 70.00 | 0.300 | -4.000 |" in text
    assert "| two | simcse | 5 | 65.00 | 0.300 | -3.000 |" in text
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        assert [float(line["spearman"]) for line in csv.DictReader(file)] == [0.5, 0.5, 0.6, 0.7, 0.65, 0.66]
    assert (tmp_path / "c.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "c.pdf"], "--output: received 'c.pdf'; allowed: a file ending in .svg, .png"),
        (["--task", "STS12"], "--task: received 'STS12'; allowed: STSB"),
        (["--aggregation", "meen"], "--aggregation: received 'meen'; allowed: all, mean, wmean"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["curve", "--runs", _run(tmp_path / "one", [0.6, 0.7]), *options])
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
