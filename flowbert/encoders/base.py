"""Base classes of encoders, custom objects as encoders, and the comparison of identities."""

import math
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from flowbert.arrays import Floats, to_tensor
from flowbert.data.text_files import as_sentences
from flowbert.errors import UserError, warn
from flowbert.numbers import is_count
from flowbert.progress import bar

BLOCK_SENTENCES = 4096
"""Number of sentences that are tokenized and encoded before their vectors are written.

With more sentences, batches have more similar lengths; an interruption loses at most this number.
"""

SENTENCES_AT_ONCE = 16384
"""Number of sentences whose tokens are in memory at once."""

KNOWN_DIGESTS: ContextVar[dict[Any, tuple[Any, Any]] | None] = ContextVar(
    "known digests", default=None
)
"""Backbones with their digests, by id and use of the pooler, inside of :func:`digests_reused`."""

_CUTS: ContextVar[Counter[tuple[int, str]] | None] = ContextVar("cuts", default=None)


class Embedder(ABC):
    """Sentences to vectors, with the arguments of sentence-transformers.

    A subclass sets the attributes and ``identity``, and defines :meth:`embed`.

    Attributes:
        path: Folder, file or hub name.
        dim: Size D of a vector.
    """

    path: str = ""
    dim: int
    if TYPE_CHECKING:  # a property or an attribute

        @property
        def identity(self) -> dict[str, Any]:
            """JSON values of the current state, equal only where vectors are, up to rounding."""

    def describe(self) -> dict[str, Any]:
        """Arguments for :func:`flowbert.encoders.load_encoder`, as JSON values."""
        return {"path": self.path}

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling; template and sink_token, if it has them."""
        return {"encoder": self.path, "layers": "own", "pooling": "own"}

    def __repr__(self) -> str:
        columns = self.columns()
        name = Path(columns.pop("encoder")).name
        for option in ("sink_token", "max_length"):
            columns[option] = str(getattr(self, option, ""))
        texts = [
            name,
            *(f"{option} {text}" for option, text in columns.items() if text),
        ]
        return f"{type(self).__name__}({', '.join([*texts, f'dim {self.dim}'])})"

    @abstractmethod
    def embed(
        self, sentences: Sequence[str], on_batch: Callable[[int], Any] | None = None
    ) -> Floats:
        """Vectors of a list of N sentences: ``(N, D)``, float32.

        Args:
            sentences: The sentences.
            on_batch: Called with the number of sentences after each batch.
        """

    def embed_blocks(
        self, sentences: Sequence[str], size: int, progress: Any
    ) -> Iterator[Floats]:
        """:meth:`embed` of blocks of ``size`` sentences; a :func:`bar` counts every batch."""
        with cuts_summed(), progress as advance:
            for start in range(0, len(sentences), size):
                yield self.embed(sentences[start : start + size], advance)

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> Any:
        """Embed sentences; the arguments are those of sentence-transformers.

        Args:
            sentences: N sentences, or a single one.
            batch_size: Number of sentences that are sorted by length and encoded in one go; None
                for 16384.
            show_progress_bar: Whether to show a bar; None to show it in terminals and notebooks.
            convert_to_numpy: Return an array; otherwise a list of tensors.
            convert_to_tensor: Return a tensor on :attr:`device`.
            normalize_embeddings: Scale vectors to length 1.
            truncate_dim: Keep the first k dimensions, before they are normalized; None for all.

        Returns:
            Vectors ``(N, k)``, float32, or ``(k,)`` for a single sentence. A warning says if
            sentences were cut.

        Raises:
            UserError: If a sentence is not text or has no token, a vector is not finite (float16
                overflows) or depends on more than its sentence, or an option does not fit the
                vectors.
        """
        texts = as_sentences(sentences)
        size = SENTENCES_AT_ONCE if batch_size is None else batch_size
        if not is_count(size, 1, math.inf):
            raise UserError(argument="batch_size", received=size, expected="1 or more")
        dim = self.dim
        if truncate_dim is not None and not is_count(truncate_dim, 1, dim):
            raise UserError(
                argument="truncate_dim",
                received=truncate_dim,
                expected=f"a whole number from 1 to {dim}, or none",
            )
        progress = bar("encoding", len(texts), show_progress_bar)
        blocks = self.embed_blocks(texts, size, progress)
        vectors: Floats = np.empty((0, truncate_dim or dim), dtype=np.float32)
        vectors = np.concatenate([vectors, *(x[:, :truncate_dim] for x in blocks)])
        if normalize_embeddings:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.maximum(lengths, np.float32(1e-12))
        result: Any = vectors
        if convert_to_tensor or not convert_to_numpy:
            result = torch.from_numpy(vectors).to(self.device)
        if isinstance(sentences, str):
            return result[0]
        return result if convert_to_tensor or convert_to_numpy else list(result)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return torch.device("cpu")

    @property
    def backbone_key(self) -> str:
        """Encoders with equal keys are computed in one pass; this key is unique."""
        return str(id(self))

    def similarity(self, first: Any, second: Any) -> Tensor:
        """Cosines of vectors ``(N, D)`` and ``(M, D)``, arrays or tensors: ``(N, M)``, float32."""
        rows = [to_tensor(x).float() for x in (first, second)]
        units = [normalize(x.reshape(-1, x.shape[-1]), dim=1) for x in rows]
        with torch.autocast(units[0].device.type, enabled=False):
            return units[0] @ units[1].T

    def get_sentence_embedding_dimension(self) -> int:
        """:attr:`dim`, as sentence-transformers calls it."""
        return self.dim


class CustomEncoder(Embedder):
    """An encoder from an object or a function, such as the embeddings of an API.

    Vectors are cached in files and reused only if the object has an attribute ``identity``.

    Args:
        source: A function from a list of N sentences to vectors ``(N, D)``, as a list, an array or
            a tensor, or an object with such a method ``encode``. Optional attributes of the object
            are ``name`` (for tables), ``dim`` (D; otherwise found by encoding a sentence), and
            ``identity`` (JSON values that change whenever the vectors do).

    Attributes:
        path: Name of the encoder.
        is_on_disk: False, as no folder can be opened in its place.
        is_cached: Whether its vectors are cached in files.

    Raises:
        UserError: If ``source`` is neither.

    Example:
        >>> lengths = CustomEncoder(lambda texts: [[len(text), 1] for text in texts])
        >>> lengths.encode(["a dog", "a"]).tolist()
        [[5.0, 1.0], [1.0, 1.0]]
    """

    is_on_disk = False

    def __init__(self, source: Any) -> None:
        self._embed = getattr(source, "encode", source)
        if not callable(self._embed):
            raise UserError(
                argument="encoder",
                received=source,
                expected="a path, EncoderOptions, a function, or an object with encode",
            )
        self._source = source
        name = getattr(source, "name", None) or getattr(source, "__name__", None)
        self.path = str(name or type(source).__name__)
        self.is_cached = hasattr(source, "identity")
        self._token = secrets.token_hex(16)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]
        """Size D of a vector."""
        known = getattr(self._source, "dim", None)
        return int(known or self.embed(["size"]).shape[1])

    @property
    def identity(self) -> dict[str, Any]:
        """``identity`` of the object, else an identity that no other object has."""
        return {"custom": getattr(self._source, "identity", self._token)}

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Vectors ``(N, D)`` of N sentences, float32.

        Raises:
            UserError: If the source does not return one vector for each sentence, all of one size.
        """
        vectors = self._embed(list(sentences))
        if isinstance(vectors, Tensor):
            vectors = vectors.detach().cpu().float()
        try:
            rows: Floats = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError):  # of several sizes, or no numbers
            rows = np.empty(0, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(sentences):
            raise UserError(
                f"{self.path}: received {type(vectors).__name__} for {len(sentences)} sentences; "
                "expected a vector for each, all of one size",
                argument="encoder",
            )
        return rows


@contextmanager
def cuts_summed() -> Iterator[None]:
    """Replace warnings of cut sentences by one, at the end of the block."""
    if _CUTS.get() is not None:  # the outer block warns
        yield
        return
    cuts: Counter[tuple[int, str]] = Counter()
    token = _CUTS.set(cuts)
    try:
        yield
    finally:
        _CUTS.reset(token)
    for limit in sorted({limit for limit, _ in cuts}):
        warn_of_cuts(cuts[limit, "cut"], cuts[limit, "all"], limit)


def warn_of_cuts(cut: int, count: int, limit: int) -> None:
    """Warn if sentences were cut: now, or at the end of :func:`cuts_summed`.

    Args:
        cut: Number of sentences that were cut.
        count: Number of all sentences.
        limit: Number of tokens after which a sentence is cut.
    """
    cuts = _CUTS.get()
    if cuts is not None:
        cuts.update({(limit, "cut"): cut, (limit, "all"): count})
    elif cut:
        warn(f"max_length: {cut} of {count} sentences were cut to {limit} tokens")


@contextmanager
def digests_reused() -> Iterator[None]:
    """Compute digests once inside the block, in which encoders must not change."""
    digests = KNOWN_DIGESTS.get()
    token = KNOWN_DIGESTS.set({} if digests is None else digests)
    try:
        yield
    finally:
        KNOWN_DIGESTS.reset(token)


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
        saved: Identity of the encoder that the map was fitted on.
        present: Identity of the encoder in use.
        what: Description of the map for the message, such as ``"model in runs/first"``.

    Raises:
        UserError: If they differ; the message lists the differences.
    """
    differences = []
    for name in differing_keys(saved, present):
        now, before = (
            repr(identity[name]) if name in identity else "nothing"
            for identity in (present, saved)
        )
        differences.append(f"{name} {now} instead of {before}")
    if differences:
        raise UserError(
            f"received another one than the {what} was fitted on: {', '.join(differences)}",
            argument="encoder",
        )
