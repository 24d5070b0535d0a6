"""One function fits a map for every command: none forgets seed, device or labelled pairs."""

import ast
from pathlib import Path

import flowbert

PACKAGE = Path(flowbert.__file__).parent
# Files outside of maps/ that call a method ``fit``, and what they fit.
FITTING = {
    "experiments/run.py": "maps: fit_map",
    "fitting/outcome.py": "raw, of which there is nothing to fit",
    "training/callbacks.py": "the baseline of a Trainer, which knows no experiments",
    "methods/heads.py": "a map in the loss of a training, which knows no experiments",
    "methods/simcse.py": "that head",
    "analysis/cls_token.py": "a whitening that is no result, but tells what [CLS] holds",
    "analysis/gaussianity.py": "a covariance of scikit-learn",
    "analysis/isotropy.py": "an index of scikit-learn",
    "tasks/probe.py": "a classifier of scikit-learn",
}


def calls_fit(tree: ast.AST) -> bool:
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        isinstance(each, ast.Attribute) and each.attr == "fit" for each in functions
    )


def test_maps_are_fitted_in_one_place() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if calls_fit(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {file for file in found if not file.startswith("maps/")} == set(FITTING)
