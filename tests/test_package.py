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


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import flowbert", (*HEAVY, "jsonargparse", "numpy", "pytorch_lightning", "scipy", "torch", "transformers")),
        ("from flowbert.cli import main; main(['help'])", (*HEAVY, "jsonargparse", "numpy", "torch")),
        ("from flowbert.methods import parse_methods", (*HEAVY, "pytorch_lightning")),
        ("from flowbert.cli import main; main(['fit', '--help'])", HEAVY),
        ("import flowbert.cli.evaluate", (*HEAVY, "matplotlib", "pytorch_lightning", "scipy.stats")),
        ("import flowbert.cli.report", (*HEAVY, "matplotlib", "pytorch_lightning", "scipy.stats")),
        ("from flowbert.estimators import Whitening", ("transformers", "pytorch_lightning")),
    ],
)
def test_heavy_libraries_wait_until_they_are_needed(statement: str, heavy: tuple[str, ...]) -> None:
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {statement}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not set(heavy) & set(ended.stderr.splitlines()[-1].split())
