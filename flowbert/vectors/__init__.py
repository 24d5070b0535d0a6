"""Vectors: in arrays, in files, and in the cache of what was encoded."""

from flowbert.vectors.base import VectorArray, Vectors
from flowbert.vectors.cache import CachedVectors, EmbeddingCache
from flowbert.vectors.vector_file import (
    VectorFile,
    append_vectors,
    as_vectors,
    check_output,
    write_vectors,
)

__all__ = [
    "CachedVectors",
    "EmbeddingCache",
    "VectorArray",
    "VectorFile",
    "Vectors",
    "append_vectors",
    "as_vectors",
    "check_output",
    "write_vectors",
]
