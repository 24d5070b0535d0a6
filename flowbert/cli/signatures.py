"""Parameters of functions and classes, read from their source: no module is imported for them.

The options of all commands are known in 0.3 s so, where importing their functions takes 7 s.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, Union

from docstring_parser import parse as parse_docstring

_TYPES = {
    "Any": Any,
    "None": NoneType,
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
}
_LISTS = ("Sequence", "list")


class Parameter(NamedTuple):
    """A parameter of a function or class.

    Attributes:
        name: Its name.
        types: The types that a command line can give, in order; empty if there are none.
        default: Its default; ``inspect.Parameter.empty`` if it is required.
        description: Its description in the docstring, one line.
    """

    name: str
    types: tuple[Any, ...]
    default: Any
    description: str


class Signature(NamedTuple):
    """The parameters of a function or class, and the first line of its docstring."""

    parameters: list[Parameter]
    summary: str


@cache
def read_signature(path: str) -> Signature:
    """Read the signature of a function, of ``__init__``, or of a dataclass without its bases.

    Args:
        path: Full name, such as ``flowbert.encoding.encode``.
    """
    module, _, name = path.rpartition(".")
    tree = _parse(module)
    nodes = [node for node in tree.body if getattr(node, "name", None) == name]
    node: Any = nodes[-1]
    described = [node]
    if isinstance(node, ast.ClassDef):
        described += [x for x in node.body if getattr(x, "name", "") == "__init__"]
    texts = [ast.get_docstring(each) or "" for each in described]
    descriptions = {
        each.arg_name: " ".join((each.description or "").split())
        for text in texts
        for each in parse_docstring(text).params
    }
    parameters = [
        Parameter(
            name,
            tuple(_types(annotation)),
            inspect.Parameter.empty if default is None else _value(default, module),
            descriptions.get(name, ""),
        )
        for name, annotation, default in _parameters(described[-1])
    ]
    return Signature(parameters, texts[0].partition("\n")[0])


@cache
def _parse(module: str) -> ast.Module:
    """Parse the file of a module; packages above it are not imported."""
    package, *parts = module.split(".")
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent.joinpath(*parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _parameters(node: Any) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """Name, annotation and default of each parameter of a function, or field of a dataclass."""
    if isinstance(node, ast.ClassDef):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield field.target.id, field.annotation, field.value
        return
    positional = [*node.args.posonlyargs, *node.args.args]
    required = [None] * (len(positional) - len(node.args.defaults))
    defaults = [*required, *node.args.defaults, *node.args.kw_defaults]
    names = [*positional, *node.args.kwonlyargs]
    for argument, default in zip(names, defaults, strict=True):
        if argument.arg != "self":
            yield argument.arg, argument.annotation, default


def _types(node: ast.expr) -> list[Any]:
    """The parts of an annotation that a command line can give; a call allows more."""
    if isinstance(node, ast.BinOp):
        types = [*_types(node.left), *_types(node.right)]
        return [each for each in types if each is not Any]
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in _LISTS:
        return [list[Union[tuple(_types(node.slice))]]]  # type: ignore[misc]  # noqa: UP007
    name = ast.unparse(node)
    return [_TYPES[name]] if name in _TYPES else []


def _value(node: ast.expr, module: str) -> Any:
    """The value of a default: a literal, or the name of a constant."""
    if isinstance(node, ast.Name):
        return read_constant(module, node.id)
    return ast.literal_eval(node)


def read_constant(module: str, name: str) -> Any:
    """Read a constant of a module, or of a module from which it is imported there."""
    for each in _parse(module).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name:
            return _value(each.value, module)
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name:
            assert each.value is not None
            return _value(each.value, module)
        if isinstance(each, ast.ImportFrom) and name in {x.name for x in each.names}:
            return read_constant(str(each.module), name)
    raise LookupError(f"{module} has no {name}")
