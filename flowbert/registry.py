"""Registries: what a text names, whether it comes with the package or is a user's own."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Generic, TypeVar

from flowbert.errors import UserError, choices, nearest
from flowbert.spec import is_import_path, parse_spec, write_spec

Registered = TypeVar("Registered", bound=Callable[..., Any])

_REFUSED = ContextVar("imports refused", default=False)
_NAME = re.compile(r"[A-Za-z]\w*(-[A-Za-z]\w*)*")


class Registry(Generic[Registered]):
    """Classes or functions of one kind, by name and by import path.

    Each registers where it stands. A text ``name[-NUMBER][:option=value]...`` is read by
    :meth:`parse` and written by :meth:`write`; the number sets the parameter that the attribute
    ``size_parameter`` of the class names.

    Args:
        kind: What is registered, in words, such as ``coupling``.
        base: The class that registered classes derive from; None for functions, too.
        given: Parameters that the caller of :meth:`make` sets: they are no options.

    Example:
        >>> POWERS = Registry("power", given=("x",))
        >>> @POWERS.register("power")
        ... def power(x: float, exponent: float = 2.0) -> float:
        ...     return x**exponent
        >>> POWERS.make("power:exponent=3", x=2), POWERS.write(power, {"exponent": 3})
        (8, 'power:exponent=3')
    """

    def __init__(
        self, kind: str, *, base: type | None = None, given: tuple[str, ...] = ()
    ) -> None:
        self.kind = kind
        self.base = base
        self.given = given
        self._registered: dict[str, Registered] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._registered

    def __len__(self) -> int:
        return len(self._registered)

    def __iter__(self) -> Iterator[str]:
        return iter(self._registered)

    def normalize(self, text: str, argument: str | None = None) -> str:
        """The canonical text of all that mean the same, see :meth:`write`."""
        return self.write(*self.parse(text, argument))

    def names(self) -> list[str]:
        """Registered names, in the order of registration."""
        return list(self._registered)

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Decorate a class or function with the name that it is found by.

        Raises:
            ValueError: If another object has the name, this object has another name, or the grammar
                has no such name. A module or notebook cell that is run again replaces its own.
            TypeError: If the object is of another kind.
        """

        def add(found: Registered) -> Registered:
            if not self._is_of_kind(found):
                raise TypeError(
                    f"{self.kind}: received {found!r}; expected {self._kind()}"
                )
            path, own = import_path(found), self.name_of(found)
            holder = self._registered.get(name)
            if holder is not None and import_path(holder) != path:
                raise ValueError(
                    f"{self.kind}: received the name {name!r} for {path}; expected another, as "
                    f"{import_path(holder)} has it"
                )
            if own not in (name, path):
                raise ValueError(
                    f"{self.kind}: received the name {name!r} for {path}; expected its name {own!r}"
                )
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{self.kind}: received the name {name!r}; expected letters, digits and _, "
                    "with a letter after each -"
                )
            self._registered[name] = found
            return found

        return add

    def find(self, name: str, argument: str | None = None) -> Registered:
        """The class or function of a name or an import path; its module is imported.

        Args:
            name: A registered name, or ``package.module.Name``.
            argument: Name of the argument, for messages; None for the kind.

        Raises:
            UserError: If there is none, its module cannot be imported, or it is of another kind.
        """
        if name in self._registered:
            return self._registered[name]
        where = argument or self.kind
        # What a file names is called only where its class says that it is of this kind.
        if not is_import_path(name) or (self.base is None and _REFUSED.get()):
            raise UserError(argument=where, received=name, expected=choices(self, name))
        module, _, last = name.rpartition(".")
        content = vars(import_own(module, where))
        if last not in content:
            raise UserError(
                f"received {name!r}; {module} has no {last}{nearest(content, last)}",
                argument=where,
            )
        if not self._is_of_kind(content[last]):
            raise UserError(argument=where, received=name, expected=self._kind())
        found: Registered = content[last]
        return found

    def parse(
        self, text: str, argument: str | None = None
    ) -> tuple[Registered, dict[str, Any]]:
        """The class or function that a text names, and the options that it gives.

        Args:
            text: ``name[-NUMBER][:option=value]...``.
            argument: As in :meth:`find`.

        Raises:
            UserError: As of :meth:`find`, and for an option that is unknown, repeated or missing.
        """
        where = argument or self.kind
        if not isinstance(text, str):
            expected = choices(self, str(text))
            raise UserError(argument=where, received=text, expected=expected)
        name, number, options = parse_spec(text, self._registered, where)
        found = self.find(name, where)
        allowed = self.options(found)
        for option in options:
            if option not in allowed:
                expected = choices(allowed, option) or f"{name} without options"
                raise UserError(
                    f"{text}: received the option {option!r}; expected {expected}",
                    argument=where,
                )
        if number is not None:
            size = getattr(found, "size_parameter", None)
            if size is None or size in options:
                twice = f"{size} twice; expected the number, or the option"
                refusal = twice if size else f"a number; expected {name} without"
                raise UserError(f"{text}: received {refusal}", argument=where)
            options[size] = number
        for name, default in allowed.items():
            if default is inspect.Parameter.empty and name not in options:
                raise UserError(
                    argument=where,
                    received=text,
                    expected=f"the option {name}, as {name}=value",
                )
        return found, options

    def make(self, text: str, *, argument: str | None = None, **given: Any) -> Any:
        """What the class or function of a text returns.

        Args:
            text: ``name[-NUMBER][:option=value]...``.
            argument: As in :meth:`find`.
            **given: Values of the parameters that are no options.

        Raises:
            UserError: As of :meth:`parse`.
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
        for name, each in self._registered.items():
            if import_path(each) == path:
                return name
        return path

    def write(self, found: Registered, options: Mapping[str, Any]) -> str:
        """The text of a class or function: options that are not the default, by their names.

        Raises:
            UserError: If the grammar has no text for the value of an option.
        """
        defaults = self.options(found)
        changed = {
            name: value
            for name, value in sorted(options.items())
            if name in defaults and not _equal(value, defaults[name])
        }
        size = getattr(found, "size_parameter", None)
        return write_spec(self.name_of(found), changed, size)

    def _is_of_kind(self, found: Any) -> bool:
        if self.base is None:
            return callable(found)
        return isinstance(found, type) and issubclass(found, self.base)

    def _kind(self) -> str:
        if self.base is None:
            return "a class or function"
        return f"a class derived from {import_path(self.base)}"


def import_path(found: Callable[..., Any]) -> str:
    """Module and name of a class or function."""
    return f"{found.__module__}.{found.__qualname__}"


def _equal(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except ValueError:  # an array
        return False


@contextmanager
def imports_refused() -> Iterator[None]:
    """Import nothing for an import path: no code runs because a file names it.

    Whatever reads names from a file wraps this around; modules that are imported already are found.
    """
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def import_own(name: str, where: str) -> Any:
    """Import a user's module.

    Args:
        name: Its full name.
        where: Name of the argument, for messages.

    Raises:
        UserError: If it cannot be imported, or was not and imports are refused.
    """
    if name in sys.modules:
        return sys.modules[name]
    if _REFUSED.get():
        raise UserError(
            f"received a name in {name}; expected that module imported before, as a file imports "
            "no code",
            argument=where,
        )
    try:
        return import_module(name)
    # Whatever a user's module raises.
    except Exception as error:
        raise UserError(
            f"received a name in {name}, which cannot be imported "
            f"({type(error).__name__}: {error})",
            argument=where,
        ) from error
