"""Vectors: in arrays, in files, and in the cache of what was encoded."""

from flowbert.vectors.base import VectorArray, Vectors, as_vectors
from flowbert.vectors.cache import EmbeddingCache
from flowbert.vectors.output import append_vectors, check_output

__all__ = [
    "EmbeddingCache",
    "VectorArray",
    "Vectors",
    "append_vectors",
    "as_vectors",
    "check_output",
]
