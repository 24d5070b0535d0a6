"""Registries of classes and functions, and the texts ``name[-NUMBER][:option=value]...`` for them.

Maps, poolings, losses, couplings and the like are written and read as such texts. A name is
registered, or an import path such as ``mypackage.maps.MyMap``. A value in brackets is a text, which
may be one of this grammar: ``flow:coupling=[mypackage.couplings.Spline:bins=8]``.
"""

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from numbers import Integral, Real
from typing import Any, TypeVar, cast

from flowbert.errors import UserError, choices, nearest
from flowbert.numbers import is_count, parse_integer, parse_number

Registered = TypeVar("Registered", bound=Callable[..., Any])

_REFUSED = ContextVar("imports refused", default=False)
_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}
_UNREADABLE = re.compile(r"[,\s]")  # they separate texts in lists
_SEPARATORS = re.compile(r"[][:=+]")


class Registry(dict[str, Registered]):
    """Classes or functions of one kind, by name and by import path.

    They are registered in their definition. A text ``name[-NUMBER][:option=value]...`` is read
    by :meth:`parse` and written by :meth:`write`; the number sets the parameter that the attribute
    ``size_parameter`` of the class names.

    Args:
        kind: Kind of the registered objects, such as ``coupling``.
        base: Base class of the registered classes; None if functions may be registered.
        given: Parameters that the caller of :meth:`make` sets and a text cannot set.
        extras: Import paths of the objects in ``flowbert.extras``, which :meth:`find` imports.

    Example:
        >>> POWERS = Registry("power", given=("x",))
        >>> @POWERS.register("power")
        ... def power(x: float, exponent: float = 2.0) -> float:
        ...     return x**exponent
        >>> POWERS.make("power:exponent=3", x=2), POWERS.write(power, {"exponent": 3})
        (8, 'power:exponent=3')
    """

    def __init__(
        self,
        kind: str,
        *,
        base: type | None = None,
        given: tuple[str, ...] = (),
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(extras or {})
        self.kind = kind
        self.base = base
        self.given = given

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Decorate a class or function to register it.

        An object of the same name is replaced, for example when a notebook cell runs again.
        """

        def add(found: Registered) -> Registered:
            self[name] = found
            return found

        return add

    def find(self, name: str, argument: str | None = None) -> Registered:
        """Find a class or function by its name or import path; its module is imported.

        Args:
            name: A registered name, or ``package.module.Name``.
            argument: Name of the argument, for messages; None for the kind.

        Raises:
            UserError: If the object is missing or of another kind, or its module fails to import.
        """
        if name in self:
            if isinstance(self[name], str):
                self[name] = import_object(import_path(self[name]))
            return self[name]
        where = argument or self.kind
        # Without a base class, any imported function would be of this kind.
        if not is_import_path(name) or (self.base is None and _REFUSED.get()):
            raise UserError(argument=where, received=name, expected=choices(self, name))
        module, _, last = name.rpartition(".")
        content = vars(import_custom(module, where))
        if last not in content:
            raise UserError(
                f"received {name!r}; {module} has no {last}{nearest(content, last)}",
                argument=where,
            )
        found: Any = content[last]
        if self.base is None:
            valid, kind = callable(found), "a class or function"
        else:
            valid = isinstance(found, type) and issubclass(found, self.base)
            kind = f"a class derived from {import_path(self.base)}"
        if not valid:
            raise UserError(argument=where, received=name, expected=kind)
        return cast(Registered, found)

    def parse(
        self, text: str, argument: str | None = None
    ) -> tuple[Registered, dict[str, Any]]:
        """Find the class or function that a text names, and read its options.

        Args:
            text: ``name[-NUMBER][:option=value]...``.
            argument: As in :meth:`find`.

        Raises:
            UserError: As in :meth:`find`, and for an option that is unknown, repeated or missing.
        """
        where = argument or self.kind
        if not isinstance(text, str):
            expected = choices(self, str(text))
            raise UserError(argument=where, received=text, expected=expected)
        name, *written = split_spec(text.strip(), ":")
        match = None if name in self else re.fullmatch(r"(.+)-([0-9]+)", name)
        found = self.find(match[1] if match else name, where)
        allowed = self.options(found)
        options: dict[str, Any] = {}
        for part in written:
            option, equals, value = part.partition("=")
            if not equals or option in options:
                raise UserError(
                    argument=where,
                    received=text,
                    expected="each option once, as name=value",
                )
            if option not in allowed:
                expected = choices(allowed, option) or f"{name} without options"
                raise UserError(
                    f"{text}: received the option {option!r}; expected {expected}",
                    argument=where,
                )
            options[option] = _value(value)
        if match:
            size = getattr(found, "size_parameter", None)
            if size is None or size in options:
                expected = f"{match[1]} without the number"
                raise UserError(argument=where, received=text, expected=expected)
            options[size] = int(match[2])
        for option, default in allowed.items():
            if default is inspect.Parameter.empty and option not in options:
                expected = f"the option {option}, as {option}=value"
                raise UserError(argument=where, received=text, expected=expected)
        return found, options

    def make(self, text: str, *, argument: str | None = None, **given: Any) -> Any:
        """Call the class or function of a text.

        Args:
            text: ``name[-NUMBER][:option=value]...``.
            argument: As in :meth:`find`.
            **given: Values of the parameters that texts cannot set.

        Raises:
            UserError: As in :meth:`parse`.
        """
        found, options = self.parse(text, argument)
        return found(**given, **options)

    def options(self, found: Registered) -> dict[str, Any]:
        """Options of a registered class or function with their defaults."""
        return {
            name: parameter.default
            for name, parameter in inspect.signature(found).parameters.items()
            if name not in self.given
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    def name_of(self, found: Registered) -> str:
        """The name of a class or function: the registered one, or its import path."""
        path = import_path(found)
        for name, registered in self.items():
            if import_path(registered) == path:
                return name
        return path

    def write(self, found: Registered, options: Mapping[str, Any]) -> str:
        """Write the text of a class or function, with the options that are not the default.

        Raises:
            UserError: If the grammar cannot express the value of an option.
        """
        text = self.name_of(found)
        defaults = self.options(found)
        changed = {
            name: value
            for name, value in sorted(options.items())
            if name in defaults and not _equal(value, defaults[name])
        }
        size: Any = getattr(found, "size_parameter", None)
        if is_count(changed.get(size), 0, math.inf):
            text += f"-{changed.pop(size)}"
        for name, value in changed.items():
            written = _write_value(value)
            if written is None:
                raise UserError(
                    argument=name,
                    received=value,
                    expected="a number, true, false, none, or a word without spaces and : = ,",
                )
            text += f":{name}={written}"
        return text


def import_object(path: str) -> Any:
    """Import a class or function of flowbert by its import path."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def import_path(found: Callable[..., Any] | str) -> str:
    """Import path of a class or function; a path is returned unchanged."""
    if isinstance(found, str):
        return found
    return f"{found.__module__}.{found.__qualname__}"


def _equal(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except ValueError:  # an array
        return False


@contextmanager
def imports_refused() -> Iterator[None]:
    """Context in which import paths do not import modules, so that files run no code.

    Objects of imported modules are found.
    """
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def import_custom(name: str, where: str) -> Any:
    """Import a custom module.

    Args:
        name: Full name of the module.
        where: Name of the argument, for messages.

    Raises:
        UserError: If it cannot be imported, or must not be.
    """
    if name in sys.modules:
        return sys.modules[name]
    if _REFUSED.get():
        raise UserError(
            f"needs the module {name}, and opening a file imports no code; expected "
            f"`import {name}` before it, or the option import",
            argument=where,
        )
    try:
        return import_module(name)
    # A custom module can raise anything.
    except Exception as error:
        raise UserError(
            f"needs the module {name}, which cannot be imported "
            f"({type(error).__name__}: {error})",
            argument=where,
        ) from error


def is_import_path(name: str) -> bool:
    """Whether a name is written like an import path, ``package.module.Name``.

    Example:
        >>> is_import_path("mypackage.maps.MyMap"), is_import_path("whitening")
        (True, False)
    """
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def split_spec(text: str, mark: str) -> list[str]:
    """Split at a mark outside brackets, where a name follows.

    Example:
        >>> split_spec("whitening:shrinkage=1e+3+flow", "+")
        ['whitening:shrinkage=1e+3', 'flow']
    """
    parts: list[str] = []
    for part in re.split(rf"{re.escape(mark)}(?=\s*[A-Za-z_])", text):
        if parts and parts[-1].count("[") > parts[-1].count("]"):
            parts[-1] += mark + part
        else:
            parts.append(part)
    return parts


def _write_value(value: Any) -> str | None:
    """The text of a value; None if :func:`_value` would not read the same value."""
    for word, meaning in _WORDS.items():
        if value is meaning:
            return word
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        text = repr(float(value))
        return text if _value(text) == value else None
    if not isinstance(value, str) or _UNREADABLE.search(value):
        return None
    if value and _value(value) == value and not _SEPARATORS.search(value):
        return value
    text = f"[{value}]"
    is_matched = text.count("[") == text.count("]")
    is_read = is_matched and split_spec(f"{text}:next", ":") == [text, "next"]
    return text if is_read else None


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for parse in (parse_integer, parse_number):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
