"""Rules of the package that hold for every file, checked on the source."""

import ast
import re
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
    texts = [path.read_text() for path in SOURCES]
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
            tables = ("maps/__init__.py", "cli/__init__.py")
            exported = file.endswith("/__init__.py") and file not in tables
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
    """File and name of functions, classes, methods and constants."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield file, node.name
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                names = [x for x in ast.walk(node) if isinstance(x, ast.Name)]
                yield from ((file, x.id) for x in names if isinstance(x.ctx, ast.Store))


# Called by Lightning, torch, scikit-learn, argparse, the console script and users.
HOOKS = re.compile(
    r"__\w+__|on_\w+|configure_\w+|\w+_step|\w+_dataloader|\w+_checkpoint|state_key|backward"
    r"|write_on_batch_end|inverse_transform|main|merge|setup|get_sentence_embedding_dimension|_repr_html_"
    r"|n_components_|higher_is_better"
)


def test_no_dead_code():
    used = names_used()
    dead = {
        f"{file}: {name}"
        for file, name in definitions()
        if name not in used and not HOOKS.fullmatch(name)
    }
    assert dead == set()


def test_no_path_of_a_machine():
    for folder in (PACKAGE, ROOT / "tests"):
        for path in folder.rglob("*.py"):
            if path != Path(__file__):
                text = path.read_text()
                assert not re.search(r"/(home|root|Users|work|tmp)/\w", text), path
