"""What a format of exports is, and the registry that ``export`` looks in."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from flowbert.errors import UserError
from flowbert.model import Model
from flowbert.registry import Registry


class Format(ABC):
    """A format of exports: how a model is written, read, and described.

    The parameters of the constructor are the options of its text, as in ``name:option=value``.

    Attributes:
        library: Library that the hub shows for a model of this format.
        packages: What it needs, as pip names it.
        tolerance: Largest difference of a cosine from the model's own.
        has_loss: Whether its vectors are not the model's; the README.md says how they differ.
        files: Patterns of files that a later export may lack: they are deleted on the hub then.
    """

    library: ClassVar[str] = "flowbert"
    packages: ClassVar[Sequence[str]] = ()
    tolerance: ClassVar[float] = 1e-5
    has_loss: ClassVar[bool] = False
    files: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def write(self, model: Model, folder: Path) -> None:
        """Write a model into an empty folder.

        Raises:
            UserError: If the format cannot express the model.
        """

    @abstractmethod
    def encode(self, folder: Path, sentences: Sequence[str]) -> Any:
        """Vectors of a folder by the program that it is for, ``(N, k)``, for verification."""

    @abstractmethod
    def usage(self, name: str, model: Model) -> str:
        """How to use the folder, in Markdown.

        Args:
            name: Name that it is loaded by.
            model: The exported model.
        """

    def limits(self, model: Model) -> list[str]:
        """Limits of this format in the README.md, a sentence each."""
        return []

    def measured_limits(self, folder: Path, sentences: Sequence[str]) -> list[str]:
        """Limits that are measured on a written folder, a sentence each; also warnings."""
        return []

    def computes(self, model: Model, sentence: str) -> bool:
        """Whether the vector of a sentence is the model's, as :meth:`limits` says."""
        return True

    def refused(self, received: str, expected: str) -> UserError:
        """The error for a part of a model that the format cannot express."""
        name = EXPORT_FORMATS.name_of(type(self))
        return UserError(
            f"received {name} for {received}; expected {expected}", argument="format"
        )


EXPORT_FORMATS: Registry[type[Format]] = Registry("format", base=Format)
"""Formats by name."""
