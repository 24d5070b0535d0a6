"""Progress bars are of the command line, not of library calls."""

import io

from flowbert.progress import bar, show_progress, tell


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_shown_in_terminals(monkeypatch):
    show_progress(False)  # whatever a command of another test has left
    assert list(bar(range(3), "Fitting", unit="maps")) == [0, 1, 2]
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert bar(total=3).disable
    show_progress(True)
    try:
        with bar(desc="Fitting", total=3) as progress:
            assert not progress.disable
            progress.update(3)
        assert not terminal.getvalue()  # it took less than a second
        tell("evaluating")
        assert terminal.getvalue() == "evaluating\n"
        monkeypatch.setattr("sys.stderr", io.StringIO())
        assert bar(total=3).disable
    finally:
        show_progress(False)
