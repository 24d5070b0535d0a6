"""Rules of the package that hold for every file, checked on the source."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flowbert"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def trees():
    """The files of the package, parsed."""
    names = [str(path.relative_to(PACKAGE)) for path in SOURCES]
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    return dict(zip(names, map(ast.parse, texts), strict=True))


@cache
def nodes():
    return [(file, node) for file, tree in trees().items() for node in ast.walk(tree)]


def called(name):
    """Calls of a function or method by its name."""
    for file, call in nodes():
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(name):
            yield f"{file}:{call.lineno}", call


def keywords(call):
    return {each.arg: ast.unparse(each.value) for each in call.keywords}


# Calls that could run code of a file, and what each must say.
SAFE = {
    ".from_pretrained": ("trust_remote_code", "False"),
    "SentenceTransformer": ("trust_remote_code", "False"),
    "torch.load": ("weights_only", "True"),
    "np.load": ("allow_pickle", "False"),
}


@pytest.mark.parametrize("name", SAFE)
def test_nothing_runs_code_of_a_file(name):
    option, value = SAFE[name]
    calls = dict(called(name))
    assert calls
    for place, call in calls.items():
        given = keywords(call)  # modules are open already
        is_safe = "modules" in given or given.get(option) == value
        # An export opens the folder that it has just written, without code of the checkpoint.
        assert is_safe or place.startswith("extras/export/sentence_transformers.py"), (
            place
        )


# Files that parse JSON without a schema: text of their own, and lines of a table.
OWN_JSON = (
    "data/tables.py",
    "encoders/backbone.py",
    "encoders/pooling.py",
    "extras/papers/published.py",
    "io.py",
)


def test_foreign_json_has_one_reader():
    readers = {file.split(":")[0] for file, _ in called("json.loads")}
    assert readers <= set(OWN_JSON)
    assert not [*called("json.load")]


def names_used():
    """Names that any file loads, reads as an attribute or writes as text; imports do not count."""
    used = set()
    for file, node in nodes():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Tables of names, such as that of all maps, and annotations in quotation marks.
            exported = file.endswith("/__init__.py") and file != "maps/__init__.py"
            if not exported and len(node.value) < 100:
                used |= set(re.findall(r"\w+", node.value))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            # What a registry has is found by its name there.
            decorators = [ast.unparse(each) for each in node.decorator_list]
            if any(".register(" in each for each in decorators):
                used.add(node.name)
    for template in PACKAGE.rglob("*.jinja"):
        used |= set(re.findall(r"\w+", template.read_text()))
    return used


def definitions():
    """File, name and node of functions, classes, methods and constants; whether a method."""
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield file, node.name, node, False
                for child in node.body:
                    if isinstance(node, ast.ClassDef) and isinstance(
                        child, ast.FunctionDef
                    ):
                        yield file, child.name, child, True
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield file, target.id, node, False


# Called by Lightning, torch, scikit-learn, argparse, the console script and users (merge).
HOOKS = re.compile(
    r"__\w+__|on_\w+|configure_\w+|\w+_step|\w+_dataloader|\w+_checkpoint|state_key|backward"
    r"|write_on_batch_end|inverse_transform|main|merge|setup|get_sentence_embedding_dimension|_repr_html_"
)


def test_no_dead_code():
    used = names_used()
    dead = {
        f"{file}: {name}"
        for file, name, *_ in definitions()
        if name not in used and not HOOKS.fullmatch(name)
    }
    assert dead == set()


# File names that stand for one thing in two rooms: what it is.
SHARED_FILES = {
    "__init__.py": "what a room shows",
    "base.py": "the base class of a room",
    "flow.py": "the flow, which methods/ trains and which is a map in maps/",
}
# Private constants that have one meaning in each file: which.
SHARED_CONSTANTS = {"_KIND": "what a file holds, as its metadata say"}


def test_a_name_stands_for_one_thing():
    """The name of a private function is for its file alone."""
    found: dict[str, list[ast.stmt]] = {}
    for _, name, node, method in definitions():
        if not method and not name.startswith("__"):
            found.setdefault(name, []).append(node)
    for name, nodes in found.items():
        if name.startswith("_") and all(isinstance(n, ast.FunctionDef) for n in nodes):
            copies = len({ast.dump(node) for node in nodes}) < len(nodes)
        else:
            copies = name not in SHARED_CONSTANTS and len(nodes) > 1
        assert not copies, name
    rooms = [f"{path.name}.py" for path in PACKAGE.iterdir() if path.is_dir()]
    files = Counter([*rooms, *(path.name for path in SOURCES)])
    assert {file for file, count in files.items() if count > 1} <= SHARED_FILES.keys()


def test_no_path_of_a_machine():
    for folder in (PACKAGE, ROOT / "tests"):
        for path in folder.rglob("*.py"):
            if path != Path(__file__):
                text = path.read_text(encoding="utf-8")
                assert not re.search(r"/(home|root|Users|work|tmp)/\w", text), path
