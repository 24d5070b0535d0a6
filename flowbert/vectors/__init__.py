"""Vectors: in arrays, in files, and in the cache of what was encoded."""

from flowbert.vectors.cache import EmbeddingCache, EmbeddingRows
from flowbert.vectors.files import (
    VectorFile,
    check_output,
    open_vectors,
    write_vectors,
)

__all__ = [
    "EmbeddingCache",
    "EmbeddingRows",
    "VectorFile",
    "check_output",
    "open_vectors",
    "write_vectors",
]
