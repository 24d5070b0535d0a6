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
from typing import Any, NamedTuple, Union, get_args

from docstring_parser import parse as parse_docstring

from flowbert import numbers

_TYPES = {
    "Any": Any,
    "None": NoneType,
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
}
_TYPES |= {name: hint for name, hint in vars(numbers).items() if get_args(hint)}
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
    """Read the signature of a function, of ``__init__``, or of a dataclass.

    The arguments of the bases follow where ``__init__`` passes them on, and those of a dataclass.

    Args:
        path: Full name, such as ``flowbert.encoding.encode``.
    """
    module, _, name = path.rpartition(".")
    module, node = _find(module, name)
    described, bases = [node], []
    if isinstance(node, ast.ClassDef):
        described += [x for x in node.body if getattr(x, "name", "") == "__init__"]
        if isinstance(described[-1], ast.ClassDef) or described[-1].args.kwarg:
            bases = node.bases
    texts = [ast.get_docstring(each) or "" for each in described]
    descriptions = {
        each.arg_name: " ".join((each.description or "").split())
        for text in texts
        for each in parse_docstring(text).params
    }
    parameters = {
        name: Parameter(
            name,
            tuple(_types(annotation)),
            inspect.Parameter.empty if default is None else _value(default, module),
            descriptions.get(name, ""),
        )
        for name, annotation, default in _parameters(described[-1])
    }
    for base in bases:
        for each in read_signature(f"{module}.{ast.unparse(base)}").parameters:
            known = parameters.setdefault(each.name, each)
            text = known.description or each.description
            parameters[each.name] = known._replace(description=text)
    return Signature([*parameters.values()], texts[0].partition("\n")[0])


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
    module, node = _find(module, name)
    return _value(node.value, module)


def _find(module: str, name: str) -> tuple[str, Any]:
    """Find a definition in a module, or where that imports it from; its module and node."""
    for node in _parse(module).body:
        target = getattr(node, "target", *getattr(node, "targets", [None]))
        names = [getattr(node, "name", None), getattr(target, "id", None)]
        if name in names:
            return module, node
        if isinstance(node, ast.ImportFrom) and name in {x.name for x in node.names}:
            return _find(str(node.module), name)
    raise LookupError(f"{module} has no {name}")
