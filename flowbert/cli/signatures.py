"""Parameters of functions and classes, read from their source: no module is imported for them.

The options of all commands are known in 0.3 s so, where importing their functions takes 7 s.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

from docstring_parser import parse as parse_docstring

from flowbert import numbers

_TYPES: dict[str, Any] = {
    "None": NoneType,
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
    "list[Any]": list[Any],
    "list[str]": list[str],
    "Sequence[float]": list[float],
    "Sequence[int]": list[int],
    "Sequence[str]": list[str],
    **{name: hint for name, hint in vars(numbers).items() if get_args(hint)},
}

REQUIRED = inspect.Parameter.empty
"""Default of a parameter without one."""


class Parameter(NamedTuple):
    """A parameter of a function or class.

    Attributes:
        name: Its name.
        types: The types that a command line can give, in order; empty if there are none.
        default: Its default; :data:`REQUIRED` without one.
        description: Its description in the docstring, one line.
        group: Full name of the dataclass whose fields are options in its place; empty for others.
    """

    name: str
    types: tuple[Any, ...]
    default: Any
    description: str
    group: str = ""


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
    described = [node]
    # Calls that decorate a function name a dataclass of further parameters.
    bases = [x for each in node.decorator_list for x in getattr(each, "args", [])]
    if isinstance(node, ast.ClassDef):
        described += [x for x in node.body if getattr(x, "name", "") == "__init__"]
        is_passed_on = (
            isinstance(described[-1], ast.ClassDef) or described[-1].args.kwarg
        )
        bases = node.bases if is_passed_on else []
    texts = [ast.get_docstring(each) or "" for each in described]
    descriptions = {
        each.arg_name: " ".join((each.description or "").split())
        for text in texts
        for each in parse_docstring(text).params
    }
    parameters = {}
    for name, annotation, value in _parameters(described[-1]):
        default = REQUIRED if value is None else _value(value, module)
        text = ast.unparse(annotation).replace(" | Path", "")
        types = tuple(_TYPES[part] for part in text.split(" | ") if part in _TYPES)
        if not types:  # a call allows anything
            types = (str, NoneType if default is None else list[str])
        found = re.search(r"\w+Options", text)
        group = f"{_find(module, found[0])[0]}.{found[0]}" if found else ""
        description = descriptions.get(name, "")
        parameters[name] = Parameter(name, types, default, description, group)
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
    names = [*node.args.args, *node.args.kwonlyargs]
    defaults = [*node.args.defaults, *node.args.kw_defaults]
    defaults = [None] * (len(names) - len(defaults)) + defaults
    for argument, default in zip(names, defaults, strict=True):
        if argument.arg != "self":
            yield argument.arg, argument.annotation, default


def _value(node: ast.expr, module: str) -> Any:
    """The value of a default: a literal, or the name of a constant."""
    if isinstance(node, ast.Name):
        module, constant = _find(module, node.id)
        return _value(constant.value, module)
    return ast.literal_eval(node)


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
