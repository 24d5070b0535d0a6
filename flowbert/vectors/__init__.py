"""Vectors: in arrays, in files, and in the cache of what was encoded."""

from typing import Any

from flowbert.registry import import_object
from flowbert.vectors.base import VectorArray, Vectors, as_vectors
from flowbert.vectors.cache import EmbeddingCache
from flowbert.vectors.output import append_vectors, check_output

__all__ = [
    "EmbeddingCache",
    "VectorArray",
    "VectorFile",
    "Vectors",
    "append_vectors",
    "as_vectors",
    "check_output",
    "write_vectors",
]


def __getattr__(name: str) -> Any:
    """Names of ``flowbert.extras.vector_files``, imported when they are used."""
    if name not in ("VectorFile", "write_vectors"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_object(f"flowbert.extras.vector_files.{name}")
