"""Imports point down the list of rooms, and nothing heavy is imported before it is needed.

The core imports no extra; ``test_rooms.py`` runs it without them.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flowbert"
# A room imports those before it: sentences, encoders, maps, tasks, evaluation, pages, commands.
ORDER = (
    *("__init__", "errors", "arrays", "numbers", "progress", "quota", "seeding"),
    *("threads", "io", "registry", "options", "text_tables"),
    *("data", "encoders", "flows", "vectors", "tasks", "metrics"),
    *("training", "maps", "methods", "model"),
    *("experiments", "loggers", "encoding", "fitting", "cli", "__main__"),
)


EXTRAS = {path.stem for path in (PACKAGE / "extras").glob("[!_]*")}
NEEDS = {"report": {"analysis"}}  # a page shows what was measured


def room(name):
    """The room of the core, or the name of an extra."""
    parts = name.split(".")[1:] or ["__init__"]
    return parts[1] if len(parts) > 1 and parts[0] == "extras" else parts[0]


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
        allowed = {*ORDER[: ORDER.index(own) + 1]} if own in ORDER else {*ORDER}
        if own in EXTRAS:
            allowed |= {own, *NEEDS.get(own, ())}
        for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
            assert room(name) in allowed, f"{file}: {name}"


LIBRARIES = ("datasets", "faiss", "mteb", "onnx", "sentence_transformers", "wandb")
NUMERIC = ("matplotlib", "pytorch_lightning", "transformers", "torch")
# What may not be imported by each; one after another in one process.
LIGHT = {
    "import flowbert": (*LIBRARIES, *NUMERIC, "numpy", "pandas"),
    "import flowbert.cli.help": (*LIBRARIES, *NUMERIC, "numpy", "pandas"),
    "import flowbert.data.text_files": (*LIBRARIES, *NUMERIC),
    "import flowbert.flows": (*LIBRARIES, *NUMERIC[:3], "sklearn"),
    "import flowbert.experiments": (*LIBRARIES, "matplotlib", "pytorch_lightning"),
    "import flowbert.experiments.summary": (*LIBRARIES, "matplotlib", "jinja2"),
    "import flowbert.fitting": LIBRARIES,
}
SCRIPT = """
import importlib, pkgutil, socket, sys

def refused(*_, **__):
    raise AssertionError("network")

socket.socket.connect = socket.getaddrinfo = refused
*statements, libraries = sys.argv[1:]
for statement in statements:
    exec(statement)
    print(*sys.modules)
for name in libraries.split():
    sys.modules[name] = None  # as if it were not installed
for module in pkgutil.walk_packages(flowbert.__path__, "flowbert."):
    importlib.import_module(module.name)
"""


def test_heavy_libraries_wait_and_no_module_needs_a_network_or_optional_package():
    command = [sys.executable, "-c", SCRIPT, *LIGHT, " ".join(LIBRARIES)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    for (statement, heavy), modules in zip(LIGHT.items(), lines, strict=True):
        assert not set(heavy) & set(modules.split()), statement
