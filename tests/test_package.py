"""What ``import flowbert`` gives: few names, each with an example that is run, and nothing heavy before it is used."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flowbert


@pytest.mark.parametrize("name", [name for name in flowbert.__all__ if name != "__version__"])
def test_every_name_has_an_example(name: str) -> None:
    shown = getattr(flowbert, name)
    assert shown.__name__ == name
    assert ">>> " in (inspect.getdoc(shown) or "")


def test_every_name_is_in_the_reference() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "flowbert.rst").read_text(encoding="utf-8")
    shown = re.findall(r"autofunction:: (\w+)$|:class:`(\w+) <flowbert\.", page, flags=re.MULTILINE)
    assert sorted(["__version__", *("".join(names) for names in shown)]) == sorted(flowbert.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Whitner'"):
        flowbert.Whitner  # noqa: B018


# What a whole process may not have imported; pytorch_lightning itself imports scipy, torchmetrics and matplotlib.
OPTIONAL = ("datasets", "faiss", "mteb", "onnx", "onnxruntime", "pandas", "pyarrow", "sentence_transformers")
HEAVY = (*OPTIONAL, "sklearn", "tensorboard", "wandb")


NUMERIC = ("matplotlib", "pytorch_lightning", "scipy.stats")
COMMANDS = {
    "import flowbert": (*HEAVY, *NUMERIC, "jsonargparse", "numpy", "scipy", "torch", "transformers"),
    "from flowbert.cli import main; main(['help'])": (*HEAVY, "jsonargparse", "numpy", "torch"),
    "from flowbert.methods import parse_methods": (*HEAVY, "pytorch_lightning"),
    "import flowbert.cli.evaluate": (*HEAVY, *NUMERIC),
    "import flowbert.cli.report": (*HEAVY, *NUMERIC),
    "from flowbert.cli import main; main(['fit', '--help'])": HEAVY,
}
ESTIMATORS = {"from flowbert.estimators import Whitening": ("transformers", "pytorch_lightning")}

_IN_ORDER = """
import contextlib, io, sys
for statement in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(statement, {})
        except SystemExit as end:
            assert not end.code, statement
    print(*sys.modules)
"""


@pytest.mark.parametrize("heavy", [COMMANDS, ESTIMATORS], ids=["commands", "estimators"])
def test_heavy_libraries_wait_until_they_are_needed(heavy: dict[str, tuple[str, ...]]) -> None:
    """One statement after the other in one process: each may import more than those before it."""
    ended = subprocess.run([sys.executable, "-c", _IN_ORDER, *heavy], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for (statement, too_early), imported in zip(heavy.items(), ended.stdout.splitlines(), strict=True):
        assert not set(too_early) & set(imported.split()), statement
