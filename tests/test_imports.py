"""Imports only point down: the rule of the house, checked on the source, with no list of exceptions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "flowbert"
# Each part may import what stands above it here, and itself.
ORDER = (
    "errors",
    "progress",
    "notices",
    "processes",
    "seeding",
    "threads",
    "spec",
    "io",
    "losses",
    "metrics",
    "flows",
    "calibration",
    "data",
    "vectors",
    "encoders",
    "store",
    "training",
    "datamodules",
    "modules",
    "methods",
    "estimators",
    "tasks",
    "callbacks",
    "analysis",
    "evaluation",
    "advice",
    "report",
    "exports",
    "reproduction",
    "runs",
    "cli",
)
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imported(path: Path) -> set[str]:
    """Modules of flowbert that a file imports, anywhere in it, without the leading ``flowbert.``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    return {name.removeprefix("flowbert.") for name in names if name.startswith("flowbert.")}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_point_down() -> None:
    for path in FILES:
        rank = ORDER.index(part_of(path))
        assert not {name for name in imported(path) if ORDER.index(name.split(".")[0]) > rank}, path


def modules_within(part: str) -> dict[str, set[str]]:
    """The modules of a part, each with those of the same part that it imports."""
    found = {}
    for path in FILES:
        if part_of(path) == part:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = {other for other in imported(path) if other.split(".")[0] == part}
    return found


@pytest.mark.parametrize("part", ORDER)
def test_no_circle_within_a_part(part: str) -> None:
    open_ = modules_within(part)
    assert open_
    while open_:
        free = [name for name, needs in open_.items() if not (needs & open_.keys()) - {name}]
        assert free, f"a circle among {sorted(open_)}"
        for name in free:
            del open_[name]


def test_pretrained_code_and_pickles_are_never_trusted() -> None:
    words = ("trust_remote_code=True", "import pickle", "allow_pickle=True", "weights_only=False")
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        assert not [word for word in words if word in source], path
