"""Progress bars are shown in terminals and notebooks, unless they are switched off."""

import io
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
import rich

from flowbert import progress
from flowbert.progress import (
    bar,
    print_warning,
    share_console,
    show_progress,
    tell,
    track,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def write(monkeypatch):
    """What a step of two seconds writes to a stream."""
    monkeypatch.setattr(progress, "_bars_shown", True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    console = vars(rich.get_console()).copy()

    def write(stream, seconds=2.0, **options):
        times = chain([0.0], repeat(seconds))
        clock = SimpleNamespace(monotonic=lambda: next(times))
        monkeypatch.setattr(progress, "time", clock)
        monkeypatch.setattr("sys.stderr", stream)
        share_console()
        with bar("encoder 1 of 2, bert: encoding", 2000, **options) as advance:
            advance(2000)
            print_warning("warning: one of [many] " + "words " * 20)
        tell("evaluating")
        return stream.getvalue()

    yield write
    vars(rich.get_console()).update(console)


def test_bars_are_shown_in_terminals(write, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = write(Terminal())
    assert "encoder 1 of 2, bert: encoding" in text
    assert "2,000 of 2,000 • 1,000 a second" in text
    assert "evaluating\n" in text
    assert "\x1b[33mwarning: one of [many] words" in text
    monkeypatch.setenv("NO_COLOR", "1")
    text = write(Terminal())
    assert "2,000 of 2,000 • 1,000 a second" in text
    assert "\x1b[33m" not in text


def test_bars_wait_a_second_and_are_switched_off(write):
    assert "2,000" not in write(Terminal(), seconds=0.5)
    assert "2,000" not in write(Terminal(), shown=False)
    show_progress(False)
    text = write(Terminal())
    assert "2,000" not in text
    assert "evaluating" not in text
    assert "2,000 of 2,000 • 1,000 a second" in write(Terminal(), shown=True)


def test_pipes_have_warnings_in_one_line(write):
    text = write(io.StringIO()).replace(" \n", "\n")  # as older rich writes it
    assert text == "warning: one of [many] " + "words " * 19 + "words\n"
    assert list(track(range(3), "fitting")) == [0, 1, 2]
