"""What every encoder offers, and the comparison of two identities."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from flowbert.arrays import Floats
from flowbert.errors import UserError

T = TypeVar("T")

BLOCK_SENTENCES = 4096
"""Sentences that are tokenized, and encoded before their vectors are written.

More pad less, as batches are of similar length; an interruption loses at most so many.
"""

_reused: ContextVar[dict[int, tuple[object, Any]] | None] = ContextVar(
    "reused", default=None
)

# What a digest in an identity is made from.
_SOURCES = {
    "weights": "model.safetensors",
    "config": "config.json",
    "tokenizer": "tokenizer.json or another file of the tokenizer",
}


class Encoder(Protocol):
    """Sentences to vectors."""

    dim: int
    """Size D of a vector."""

    path: str
    """Folder, file or hub name."""

    @property
    def identity(self) -> dict[str, Any]:
        """JSON values of the current state; equal identities give equal vectors, up to rounding."""

    @property
    def pass_key(self) -> str:
        """Encoders with equal keys share a backbone and are computed in one pass."""

    def encode(self, sentences: Sequence[str]) -> Floats:
        """Embed N sentences: shape ``(N, D)``, float32."""

    def describe(self) -> dict[str, Any]:
        """JSON values that :func:`flowbert.encoders.load_encoder` takes as arguments."""

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""


@contextmanager
def digests_reused() -> Iterator[None]:
    """Compute the digests of an encoder once inside the block, in which it must not change."""
    if _reused.get() is not None:
        yield
        return
    token = _reused.set({})
    try:
        yield
    finally:
        _reused.reset(token)


def reuse_digest(owner: object, compute: Callable[[], T]) -> T:
    """What is computed of an object, once inside of :func:`digests_reused` and else every time."""
    found = _reused.get()
    if found is None:
        return compute()
    if id(owner) not in found:
        found[id(owner)] = owner, compute()
    value: T = found[id(owner)][1]
    return value


def as_sentences(value: Any) -> list[str]:
    """Sentences as a list; one string is one sentence.

    Args:
        value: A string, or a list, tuple, array or Series of strings.

    Raises:
        UserError: If it is anything else, holds anything but text, or nothing.
    """
    if isinstance(value, str):
        value = [value]
    unordered = isinstance(value, Mapping | Set | bytes | bytearray)
    # A data frame is iterated by the names of its columns.
    if unordered or hasattr(value, "columns") or not hasattr(value, "__iter__"):
        received = type(value).__name__
        raise UserError(
            f"received {received}; expected a list of strings", argument="sentences"
        )
    sentences: list[str] = []
    for number, text in enumerate(value):
        if not isinstance(text, str):
            shown = f"{type(text).__name__} {str(text)[:40]!r}"
            raise UserError(
                f"received {shown} at position {number}; expected text",
                argument="sentences",
            )
        sentences.append(text.encode(errors="replace").decode())
    if not sentences:
        raise UserError("received none; expected at least one", argument="sentences")
    return sentences


def check_list(sentences: Sequence[str]) -> None:
    """Raise a TypeError for one string, whose characters would be taken as sentences."""
    if isinstance(sentences, str):
        raise TypeError("sentences: received a string; expected a list of strings")


def differing_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Keys whose values differ, or that only one of two mappings has.

    Example:
        >>> differing_keys({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 0, "d": None})
        ['b', 'c', 'd']
    """
    return [
        key
        for key in {**first, **second}
        if (key in first) != (key in second) or first.get(key) != second.get(key)
    ]


def check_same_encoder(
    saved: Mapping[str, Any], present: Mapping[str, Any], what: str
) -> None:
    """Compare the identities of two encoders.

    Args:
        saved: Identity of the encoder that something was fitted on.
        present: Identity of the encoder in use.
        what: What was fitted, for the message: ``"model in runs/first"``.

    Raises:
        UserError: If they differ; the message lists how.
    """
    differences = []
    for name in differing_keys(saved, present):
        now, before = (
            repr(each[name]) if name in each else "nothing" for each in (present, saved)
        )
        source = f" (from {_SOURCES[name]})" if name in _SOURCES else ""
        differences.append(f"{name} {now} instead of {before}{source}")
    if differences:
        raise UserError(
            f"received another one than the {what} was fitted on: {', '.join(differences)}",
            argument="encoder",
        )
