"""A measure of one's own, in a file outside of the package: named by its import path."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from flowbert.analysis import MEASURES, Analysis
from flowbert.cli import main
from flowbert.errors import FlowbertWarning
from flowbert.experiments.analyze import analyze
from flowbert.reports import report

CODE = Path(__file__).parents[2] / "examples/extend/measure.py"
NAME = "first-directions"


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    code = CODE.read_text(encoding="utf-8")
    (tmp_path / "own_measures.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_measures", raising=False)
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    return "own_measures.FirstDirections"


def test_it_is_on_the_page_beside_the_others(
    measure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "own.analysis.json"
    options = ["--methods", "raw", "--limit", "50", "--output", str(output)]
    main(["analyze", "--measures", f"spectra,isotropy,{measure}:count=2", *options])
    assert "Isotropy" in capsys.readouterr().out
    frames = Analysis.from_json(output).frames
    assert list(frames) == ["spectra", "isotropy", NAME]
    assert frames[NAME]["share"][0] == pytest.approx(
        frames["spectra"]["share"][:2].sum()
    )
    page = output.with_suffix(".html").read_text(encoding="utf-8")
    assert f'id="{NAME}"' in page
    assert f"measures spectra, isotropy, {measure}:count=2" in page
    data = output.with_suffix(".figures") / f"{NAME}.csv"
    pd.testing.assert_frame_equal(pd.read_csv(data), frames[NAME], check_dtype=False)
    setting = json.loads(output.read_text(encoding="utf-8"))["setting"]
    assert setting["measures"][-1] == f"{measure}:count=2"


def test_a_page_without_its_module_is_without_it(measure: str, tmp_path: Path) -> None:
    output = tmp_path / "own.analysis.json"
    analyze(methods="raw", limit=50, measures=f"spectra,{measure}", output=output)
    del sys.modules["own_measures"]
    del MEASURES[NAME]
    with pytest.warns(FlowbertWarning, match=f"{NAME} is left out"):
        page = report(output)
    assert 'id="spectra"' in page.read_text(encoding="utf-8")
    assert "own_measures" not in sys.modules
