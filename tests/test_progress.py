"""Progress bars are shown in terminals and notebooks, unless they are switched off."""

import io
import sys

import pytest

from flowbert.progress import bar, show_progress, tell


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """The default, whatever a command of another test has left."""
    monkeypatch.setattr("flowbert.progress._bars_shown", True)


def test_where_bars_are_shown(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert bar(total=3).disable
    assert not bar(total=3, shown=True).disable
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert not bar(total=3).disable
    show_progress(False)
    assert bar(total=3).disable


def test_bars_are_shown_in_terminals(monkeypatch):
    assert list(bar(range(3), "Fitting", unit="maps")) == [0, 1, 2]
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert bar(total=3, shown=False).disable
    with bar(desc="Fitting", total=3) as progress:
        assert not progress.disable
        progress.update(3)
    assert not terminal.getvalue()  # it took less than a second
    tell("evaluating")
    assert terminal.getvalue() == "evaluating\n"
    show_progress(False)
    assert bar(total=3).disable
    tell("evaluating")
    assert terminal.getvalue() == "evaluating\n"
