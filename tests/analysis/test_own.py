"""A measure of one's own, in a file outside of the package: named by its import path."""

import sys
from pathlib import Path

import pytest

from flowbert.analysis import MEASURES, Analysis
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
    return "own_measures.FirstDirections"


def test_it_is_on_the_page_where_its_module_is_imported(
    measure: str, tmp_path: Path
) -> None:
    output = tmp_path / "own.analysis.json"
    measures = f"spectra,{measure}:count=2"
    analyze(methods="raw", limit=50, measures=measures, output=output)
    frames = Analysis.from_json(output).frames
    assert list(frames) == ["spectra", NAME]
    share = frames["spectra"]["share"][:2].sum()
    assert frames[NAME]["share"][0] == pytest.approx(share)
    page = report(output).read_text(encoding="utf-8")
    assert f'id="{NAME}"' in page
    assert measures.replace(",", ", ") in page
    del sys.modules["own_measures"]
    del MEASURES[NAME]
    with pytest.warns(FlowbertWarning, match=f"{NAME} is left out"):
        page = report(output)
    assert 'id="spectra"' in page.read_text(encoding="utf-8")
    assert "own_measures" not in sys.modules
