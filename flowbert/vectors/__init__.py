"""Vectors: in arrays, in files, and in the cache of what was encoded."""

from flowbert.vectors.base import Vectors, as_vectors
from flowbert.vectors.cache import EmbeddingCache
from flowbert.vectors.write import check_output, write_vectors

__all__ = [
    "EmbeddingCache",
    "Vectors",
    "as_vectors",
    "check_output",
    "write_vectors",
]
