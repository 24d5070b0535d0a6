"""Imports only point down: the rule of the house, checked on the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "flowbert"
LEAVES = {"seeding", "errors", "quiet", "__init__"}
SHARED = {"seeding", "errors", "quiet", "io"}  # what every part may import
ALLOWED = {
    "io": {"errors"},
    "flows": {"losses"},
    "calibration": {"metrics.functional"},
    "losses": set(),
    "metrics": set(),
    "encoders": {"data.sample"},
    "data": set(),
    "training": set(),
    "modules": {"flows", "losses", "encoders", "metrics", "data.sample", "data.wordpiece", "data.batches"},
    "evaluation": {"metrics", "calibration", "data"},
    "callbacks": {"calibration", "data", "evaluation", "metrics"},
    "report": {"evaluation", "metrics"},
    "embedder": {"encoders", "flows", "calibration"},
    "cli": {"*"},
}
FILES = sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Modules of flowbert that a file imports, without the leading ``flowbert.``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    return {name.removeprefix("flowbert.") for name in names if name.startswith("flowbert.")}


def within(name: str, roots: set[str]) -> bool:
    return "*" in roots or any(name == root or name.startswith(f"{root}.") for root in roots)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part == "__init__":
        return  # the public names, imported on first use
    names = imported(path)
    assert all("cli" not in name.split(".")[0] for name in names) or part == "cli", "nothing imports cli"
    if part in LEAVES:
        assert names == set()
        return
    shared = set() if part == "io" else SHARED
    wrong = {name for name in names if not within(name, ALLOWED[part] | shared | {part})}
    assert wrong == set()


def test_every_part_is_known() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert parts <= set(ALLOWED) | LEAVES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pretrained_code_and_pickles_are_never_trusted(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for word in ("trust_remote_code=True", "import pickle", "allow_pickle=True", "weights_only=False"):
        assert word not in source
