"""The base class of export formats, and their registry."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from flowbert.errors import UserError
from flowbert.model import Model
from flowbert.registry import Registry


class Format(ABC):
    """A format of exports: writes, reads and describes a model.

    The parameters of the constructor are the options of its text, as in ``name:option=value``.

    Attributes:
        library: Library that the hub shows for a model of this format.
        packages: Required packages, by their names for pip.
        tolerance: Largest difference of a cosine from that of the model.
    """

    library: ClassVar[str] = "flowbert"
    packages: ClassVar[Sequence[str]] = ()
    tolerance: ClassVar[float] = 1e-5

    @abstractmethod
    def write(self, model: Model, folder: Path) -> None:
        """Write a model into an empty folder.

        Raises:
            UserError: If the format cannot express the model.
        """

    @abstractmethod
    def encode(self, folder: Path, sentences: Sequence[str]) -> Any:
        """Vectors of a folder by its target program, ``(N, k)``, for verification."""

    @abstractmethod
    def usage(self, name: str, model: Model) -> str:
        """How to use the folder, in Markdown.

        Args:
            name: Folder or name on the hub that the model is loaded from.
            model: The exported model.
        """

    def refused(self, received: str, expected: str) -> UserError:
        """The error for an unsupported part of a model."""
        name = EXPORT_FORMATS.name_of(type(self))
        return UserError(
            f"received {name} for {received}; expected {expected}", argument="format"
        )


EXPORT_FORMATS: Registry[type[Format]] = Registry("format", base=Format)
"""Formats by name."""
