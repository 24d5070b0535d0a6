"""Imports point down the list of rooms.

The core imports no extra; ``test_rooms.py`` runs it without them.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "flowbert"
# A room imports those before it: sentences, encoders, maps, tasks, evaluation, pages, commands.
ORDER = (
    *("__init__", "errors", "arrays", "numbers", "precision", "progress", "quota"),
    *("seeding", "threads", "io", "options", "registry", "text_tables"),
    *("data", "encoders", "flows", "vectors", "tasks", "metrics"),
    *("training", "maps", "model", "experiments", "encoding", "fitting"),
    *("methods", "cli", "__main__"),
)

NEEDS = {
    "extras/report": {"extras/analysis"},  # a page shows what was measured
    # The encoders of the library are neither exported nor advised on as others are.
    "extras/export": {"extras/sentence_transformer"},
    "extras/advice": {"extras/sentence_transformer"},
}


def room(name):
    """The room of the core, or ``extras/`` and the name of an extra."""
    parts = name.split(".")[1:] or ["__init__"]
    return "/".join(parts[:2]) if parts[0] == "extras" else parts[0]


def imports(tree):
    """Modules of flowbert that a file imports, in functions, too."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if name.split(".")[0] == "flowbert")


def test_imports_point_down():
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        if file == "__init__.py":
            continue  # it imports a name when it is used
        own = room(f"flowbert.{file.removesuffix('.py').replace('/', '.')}")
        allowed = {own, *NEEDS.get(own, ()), *ORDER}
        if own in ORDER:
            allowed = {*ORDER[: ORDER.index(own) + 1]}
        for name in imports(ast.parse(path.read_text())):
            assert room(name) in allowed, f"{file}: {name}"


SLOW = {"pandas", "sklearn", "datasets", "pytorch_lightning", "matplotlib"}


def test_a_plain_encode_imports_only_what_it_uses():
    """By the imports at the head of its modules; maps and tables are imported when used."""
    seen, left = set(), ["flowbert.cli", "flowbert.encoding"]
    while left:
        name = left.pop()
        path = PACKAGE.parent / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in seen or not path.exists():
            continue
        seen.add(name)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            else:
                continue
            assert not SLOW & {each.split(".")[0] for each in imported}, path
            left += [*imported, *(each.rpartition(".")[0] for each in imported)]
    assert "flowbert.encoders.passes" in seen
