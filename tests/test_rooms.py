"""The core works without the extras: their imports are refused, all at once and one by one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flowbert.extras

EXTRAS = sorted(path.stem for path in Path(flowbert.extras.__path__[0]).glob("[!_]*"))
SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

class Refused(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(tuple(f"flowbert.extras.{room}" for room in rooms)):
            raise ImportError(f"{name} is refused")

rooms = sys.argv[1].split()
sys.meta_path.insert(0, Refused())

from flowbert.cli import main

main(["fit", "--config", "quickstart", "--run_dir", "run"])
main(["compare", "--methods", "raw,whitening,whitening-8+flow", "--output", "results.json"])
main(["encode", "--model", "run", "--input", "lines.txt", "--output", "vectors.npy"])
"""


@pytest.mark.parametrize(
    "rooms",
    [
        " ".join(EXTRAS),
        *(pytest.param(room, marks=pytest.mark.slow) for room in EXTRAS),
    ],
)
def test_the_core_runs_without(rooms, tmp_path):
    (tmp_path / "lines.txt").write_text("A man rides a horse.\nTwo dogs run.\n")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, rooms],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"FLOWBERT_REPORT": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert "whitening" in ended.stdout
    for file in ("run/results.json", "results.json", "vectors.npy"):
        assert (tmp_path / file).is_file()
    no_page = "the page was not written" in ended.stderr
    assert no_page == ("report" in rooms or "analysis" in rooms), ended.stderr
