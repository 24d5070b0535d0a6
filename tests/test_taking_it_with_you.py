"""Every snippet of docs/taking-it-with-you.md runs, in order, on the run that the page makes first."""

import re
import shlex
from pathlib import Path

import pytest

from flowbert.cli.main import main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "taking-it-with-you.md"
SNIPPET = re.compile(r"```python\n((?:.*\n)*?)```|^    python train\.py ((?:.*\\\n)*.*)$", re.MULTILINE)


def snippets() -> list[tuple[str, str]]:
    """Python code, or the words after ``train.py`` of a command, in the order of the page."""
    found = SNIPPET.finditer(PAGE.read_text(encoding="utf-8"))
    return [("python", each[1]) if each[1] else ("command", each[2].replace("\\\n", " ")) for each in found]


@pytest.mark.alone
def test_every_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    Path("sentences.txt").write_text("a dog runs in the park\nthe cat sleeps on a chair\ntwo men play a song\n")
    page = PAGE.read_text(encoding="utf-8")
    found = snippets()
    assert [kind for kind, _ in found].count("python") == page.count("```python\n") > 5
    assert [kind for kind, _ in found].count("command") == page.count("\n    python train.py ") > 5
    known: dict[str, object] = {}
    for kind, text in found:
        if kind == "command":
            main(shlex.split(text))
        else:
            exec(compile(text, PAGE.name, "exec"), known)
