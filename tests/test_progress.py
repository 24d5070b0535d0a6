"""Progress: bars on a terminal, lines elsewhere, nothing where nobody asked, whatever happens inside."""

import io
import re
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from flowbert import progress as module
from flowbert.progress import Step, hide, progress, say, shown, tracked

ROOT = Path(__file__).parents[1]


class Terminal(io.StringIO):
    """A terminal that remembers what it was sent."""

    def isatty(self) -> bool:
        return True

    def frames(self) -> list[list[str]]:
        """The screen after each piece that was sent, without colours; a line above the cursor stays until erased."""
        lines, row, seen = [""], 0, []
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if piece == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif piece.endswith("A") and piece.startswith("\x1b"):
                row -= int(piece[2:-1])
                assert row >= 0, "a bar went over what stood above it"
            elif piece == "\x1b[2K":
                lines[row] = ""
            elif not piece.startswith(("\x1b", "\r")):
                lines[row] += piece
            seen.append([line.rstrip() for line in lines if line.strip()])
        return seen


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes a tenth of them."""
    monkeypatch.setattr(module, "_BAR_AFTER", 0.2)
    monkeypatch.setattr(module, "_LINE_EVERY", 0.3)
    monkeypatch.setattr(module, "_LOOKS", 40)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def work(seconds: float) -> None:
    with progress(10, "Encoding", "sentences") as step:
        for _ in range(10):
            time.sleep(seconds / 10)
            step.update()


@pytest.mark.usefixtures("fast")
def test_a_bar_with_rate_and_time_left_and_nothing_of_it_stays(terminal: Terminal) -> None:
    with redirect_stderr(terminal), shown():
        work(0.8)
    bars = [frame[0] for frame in terminal.frames() if frame]
    assert all(bar.startswith("Encoding") for bar in bars)
    assert any(re.search(r" [5-9]/10 sentences, 1\d/s, 0:00 left$", bar) for bar in bars)
    assert terminal.frames()[-1] == []


@pytest.mark.usefixtures("fast")
def test_a_short_step_is_not_shown(terminal: Terminal) -> None:
    with redirect_stderr(terminal), shown():
        for _ in range(3):
            work(0.1)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("fast")
def test_steps_within_each_other_and_what_is_said_meanwhile(terminal: Terminal) -> None:
    with redirect_stderr(terminal), shown():
        for number in tracked(range(2), "Evaluating", "figures"):
            work(0.5)
            say(f"note: [{number}] done")
    screens = [[line.split()[0] for line in frame] for frame in terminal.frames()]
    assert ["Evaluating", "Encoding"] in screens
    assert ["note:", "Evaluating", "Encoding"] in screens
    # Between erasing and drawing there are parts of a screen, but never a line in a place that is not its own.
    order = ["note:", "note:", "Evaluating", "Encoding"]
    assert all(sorted(screen, key=order.index) == screen for screen in screens)
    assert terminal.frames()[-1] == ["note: [0] done", "note: [1] done"]


@pytest.mark.usefixtures("fast")
def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown():
        work(0.2)
        assert capsys.readouterr().err == ""
        for _ in tracked(range(2), "Evaluating", "figures"):
            work(0.5)
        with progress(None, "Exporting"):
            time.sleep(0.4)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"Evaluating: 0/2 figures; Encoding: [4-8]/10 sentences, [12]\d/s, 0:00 left", first)
    assert last == "Exporting: 0:00"


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("dumb", [True, False])
def test_a_terminal_that_cannot_move_gets_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, dumb: bool
) -> None:
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    with redirect_stderr(terminal), shown():
        work(0.5)
    assert ("\x1b" in terminal.getvalue()) != dumb


def test_only_who_asks_sees_it(steps: list[Step]) -> None:
    work(0)
    with shown(False):
        work(0)
        with shown(None):
            work(0)
    with shown():
        with shown(None):
            work(0)
        with shown():
            hide()
            work(0)
        with progress(0, "Encoding", "sentences"):
            pass
    assert len(steps) == 1


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_only_the_first_process_shows_it(name: str, steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    for number in ("1", "0", "7"):
        monkeypatch.setenv(name, number)
        with shown():
            work(0)
    assert len(steps) == 1


def fail_at(number: int, items: Iterator[int], error: type[BaseException]) -> None:
    for item in items:
        time.sleep(0.1)
        if item == number:
            raise error


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_error_leaves_a_clean_terminal(terminal: Terminal, error: type[BaseException]) -> None:
    items = tracked(range(100), "Evaluating", "figures")  # which outlives the error
    with pytest.raises(error), redirect_stderr(terminal), shown():
        fail_at(5, items, error)
    assert terminal.frames()[-1] == []
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")  # there is a cursor


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("on", [None, False, True])
def test_another_thread_does_not_end_the_bars(terminal: Terminal, on: bool | None) -> None:
    def other() -> None:
        with shown(on), progress(1, "Exporting"):
            pass

    with redirect_stderr(terminal), shown(), progress(10, "Encoding", "sentences") as step:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        time.sleep(0.5)
        step.update(7)
        time.sleep(0.2)
    assert any("7/10 sentences" in frame[0] for frame in terminal.frames() if frame)
    assert terminal.frames()[-1] == []


def test_an_interrupted_end_leaves_no_thread_that_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    def closed_by_ctrl_c() -> None:
        with progress(1, "Encoding"):
            pass

    with shown():
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "join", interrupted)
            with pytest.raises(KeyboardInterrupt):
                closed_by_ctrl_c()
        assert module._display._thread is None
        with progress(1, "Encoding"):
            assert any(thread.name == "progress" for thread in threading.enumerate())
    for thread in threading.enumerate():
        if thread.name == "progress":
            thread.join(5)


def test_the_rate_is_that_of_the_last_half_minute_and_of_all_if_little_was_done_in_it() -> None:
    step = Step("Encoding", 10_000, "sentences")
    for second in range(200):
        step.done += 10 if second < 60 else 100 if second < 80 else 0
        step.look(step.started + second + 1)
        if second == 78:
            assert step.figures() == "2,500/10,000 sentences, 67/s, 1:52 left"
    assert step.figures() == "2,600/10,000 sentences, 13/s, 9:29 left"


def test_one_of_a_few_that_take_long_is_no_rate() -> None:
    step = Step("Evaluating", 6, "figures")
    for second in range(1, 121):
        step.done = second // 60
        step.look(step.started + second)
    assert step.figures() == "2/6 figures, 60 s each, 4:00 left"


def test_what_was_done_before_has_no_rate() -> None:
    step = Step("Training", 100, "steps", done=50)
    step.update(5)
    step.note = "loss 0.5"
    step.look(step.started + 10)
    assert step.figures() == "55/100 steps, 2 s each, 1:30 left, loss 0.5"


def test_one_module_draws() -> None:
    drawing = re.compile(r"^\s*(from|import) (tqdm|rich\.(progress|live|status))", re.MULTILINE)
    files = (path for folder in ("flowbert", "tools") for path in (ROOT / folder).rglob("*.py"))
    assert [path.name for path in files if drawing.search(path.read_text(encoding="utf-8"))] == ["progress.py"]
