"""The core works without the extras, methods and a network, and imports nothing heavy too early.

The extras are refused all at once and one by one, in a fork that imports the core anew.
"""

import builtins
import socket
import sys
import warnings
from importlib import import_module
from importlib.abc import MetaPathFinder
from multiprocessing import get_context
from pathlib import Path

import pytest

import flowbert.extras
from experiments.small import write_pairs
from helpers import with_slow

EXTRAS = sorted(path.stem for path in Path(flowbert.extras.__path__[0]).glob("[!_]*"))
METHODS = "flowbert.methods"  # what trains encoders comes off as a whole, too
LIBRARIES = {"datasets", "faiss", "mteb", "onnx", "sentence_transformers", "wandb"}
# torchmetrics imports all others.
LIGHTNING = {"lightning_fabric", "matplotlib", "pytorch_lightning", "torchmetrics"}
NUMERIC = {*LIGHTNING, "transformers", "torch"}
# What may not be imported by each, beside optional libraries; one after another.
LIGHT = {
    "flowbert": {*NUMERIC, "numpy", "pandas"},
    "flowbert.cli": {*NUMERIC, "numpy", "pandas"},
    "flowbert.data.text_files": NUMERIC,
    "flowbert.flows": {*LIGHTNING, "transformers", "sklearn"},
    "flowbert.experiments": LIGHTNING,
    "flowbert.experiments.summary": {"matplotlib", "jinja2"},
    "flowbert.fitting": set(),
}
SMALL = "--max_sentences 300 --corpus builtin-sample --tasks pairs.tsv --bootstrap 20"
LINES = (
    f"fit --config quickstart --run_dir run {SMALL}",
    f"compare --methods raw,whitening-8+flow --output results.json {SMALL}",
    "encode --model run --input lines.txt --output vectors.npy",
)


class Refused(MetaPathFinder):
    """Finds an error in place of the modules of some rooms."""

    def __init__(self, rooms):
        extras = tuple(f"flowbert.extras.{room}" for room in rooms)
        self.names = (METHODS, *extras)

    def find_spec(self, name, path=None, target=None):
        if name.startswith(self.names):
            raise ImportError(f"{name} is refused")


def run(rooms):
    """Import the core and run lines; what they print goes into files."""

    def fail(*_, **__):
        raise AssertionError("network")

    def record(name, scope=None, *others):
        if (scope or {}).get("__name__", "").startswith("flowbert"):
            imported.add(name.partition(".")[0])
        return import_as_ever(name, scope, *others)

    imported: set[str] = set()
    import_as_ever, builtins.__import__ = builtins.__import__, record
    socket.socket.connect = socket.getaddrinfo = fail  # type: ignore[method-assign]
    warnings.resetwarnings()
    sys.meta_path.insert(0, Refused(rooms))
    for name in [name for name in sys.modules if name.startswith("flowbert")]:
        del sys.modules[name]
    with Path("out").open("w") as sys.stdout, Path("err").open("w") as sys.stderr:
        for name, heavy in LIGHT.items():
            import_module(name)
            assert not imported & (heavy | LIBRARIES), name
        for line in LINES:
            import_module("flowbert.cli").main(line.split())


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "rooms", with_slow([EXTRAS, *([room] for room in EXTRAS)], [EXTRAS]), ids=" ".join
)
def test_the_core_runs_without(rooms, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    Path("lines.txt").write_text("A man rides a horse.\nTwo dogs run.\n")
    write_pairs(tmp_path / "pairs.tsv", count=40)
    process = get_context("fork").Process(target=run, args=(rooms,))
    process.start()
    process.join()
    errors = Path("err").read_text()
    assert process.exitcode == 0, errors
    assert "whitening" in Path("out").read_text()
    for file in ("run/results.json", "results.json", "vectors.npy"):
        assert Path(file).is_file()
    no_page = "the page was not written" in errors
    assert no_page == bool({"report", "analysis"} & {*rooms}), errors
