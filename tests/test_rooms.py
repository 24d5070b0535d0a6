"""The core works without the extras and a network, and imports nothing heavy too early.

The extras are refused all at once and one by one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flowbert.extras
from experiments.small import write_pairs

EXTRAS = sorted(path.stem for path in Path(flowbert.extras.__path__[0]).glob("[!_]*"))
LIBRARIES = ("datasets", "faiss", "mteb", "onnx", "sentence_transformers", "wandb")
NUMERIC = ("matplotlib", "pytorch_lightning", "transformers", "torch")
# What may not be imported by each, beside optional libraries; one after another.
LIGHT = {
    "import flowbert": (*NUMERIC, "numpy", "pandas"),
    "import flowbert.cli.help": (*NUMERIC, "numpy", "pandas"),
    "import flowbert.data.text_files": NUMERIC,
    "import flowbert.flows": (*NUMERIC[:3], "sklearn"),
    "import flowbert.experiments": ("matplotlib", "pytorch_lightning"),
    "import flowbert.experiments.summary": ("matplotlib", "jinja2"),
    "import flowbert.fitting": (),
}
SCRIPT = """
import socket, sys
from importlib.abc import MetaPathFinder

class Refused(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(tuple(f"flowbert.extras.{room}" for room in rooms)):
            raise ImportError(f"{name} is refused")

def refused(*_, **__):
    raise AssertionError("network")

socket.socket.connect = socket.getaddrinfo = refused
rooms, *statements = sys.argv[1:]
rooms = rooms.split()
sys.meta_path.insert(0, Refused())
for statement in statements:
    exec(statement)
    print(*sys.modules)

from flowbert.cli import main

small = "--max_sentences 300 --corpus builtin-sample --tasks pairs.tsv --bootstrap 20"
for line in (
    f"fit --config quickstart --run_dir run {small}",
    f"compare --methods raw,whitening-8+flow --output results.json {small}",
    "encode --model run --input lines.txt --output vectors.npy",
):
    main(line.split())
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
    write_pairs(tmp_path / "pairs.tsv", count=40)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, rooms, *LIGHT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"FLOWBERT_REPORT": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    *loaded, printed = ended.stdout.split("\n", len(LIGHT))
    for (statement, heavy), modules in zip(LIGHT.items(), loaded, strict=True):
        assert not {*heavy, *LIBRARIES} & {*modules.split()}, statement
    assert "whitening" in printed
    for file in ("run/results.json", "results.json", "vectors.npy"):
        assert (tmp_path / file).is_file()
    no_page = "the page was not written" in ended.stderr
    assert no_page == ("report" in rooms or "analysis" in rooms), ended.stderr
