"""What the README shows works: its Python example runs, its links and configs exist, its commands are known."""

import re
from pathlib import Path

import pytest

from flowbert.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.alone
def test_python_example_runs_and_prints_each_method(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["raw", "whitening", "flow"]
    raw, whitening, flow = (float(line.split()[1]) for line in lines)
    assert min(whitening, flow) > raw


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_commands_and_configs_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / link).exists(), link
    for command in re.findall(r"python train\.py ([a-z][\w-]*)", text):
        assert command in COMMANDS, command
    for config in re.findall(r"configs/[\w/]+\.yaml", text):
        assert (ROOT / config).exists(), config
