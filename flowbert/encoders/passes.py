"""Passes of sentences through a network in batches, shared by several readings of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowbert.arrays import Floats, is_pinned_for
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.base import warn_of_cuts
from flowbert.encoders.pooling import LastTokenPooling, TokenFeatures
from flowbert.encoders.shortcuts import Prefix
from flowbert.encoders.template import SLOT
from flowbert.errors import UserError, warn
from flowbert.threads import MAX_WORKERS, Item, in_threads

# Larger batches fall out of the caches of a CPU; an accelerator needs many tokens at once.
BATCH_TOKENS_CPU = 512  # in float32; twice as many in half precision, a tenth faster
BATCH_TOKENS_ACCELERATOR = 16384

PREFIX_SENTENCES = 16
"""Number of sentences from which it is faster to compute the tokens before them once."""

TOKENIZED_SENTENCES = 1024
"""Number of sentences to tokenize while the network computes the previous ones."""


Batch = tuple[list[int], list[dict[str, list[int]]]]
"""Indices of sentences, and the token features of each."""


def encode_together(
    encoders: Sequence[Any],
    sentences: Sequence[str],
    on_batch: Callable[[int], Any] | None = None,
    batch_tokens: int | None = None,
) -> list[Floats]:
    """Vectors of several encoders from one pass, equal to those of separate passes.

    Args:
        encoders: Instances of :class:`~flowbert.encoders.SentenceEncoder` with equal
            ``backbone_key``.
        sentences: N sentences.
        on_batch: Called with the number of sentences after each batch.
        batch_tokens: Number of tokens of a batch, as in
            :meth:`~flowbert.encoders.SentenceEncoder.embed`.

    Returns:
        Vectors ``(N, D)`` of each encoder, float32.

    Raises:
        UserError: If a vector is not finite or depends on more than its sentence, or a sentence has
            no token.
    """
    sentences = list(sentences)  # a Series is indexed by its labels
    dims = [encoder.dim for encoder in encoders]
    results: list[Floats] = [
        np.empty((len(sentences), dim), dtype=np.float32) for dim in dims
    ]
    if not sentences:
        return results
    backbone = encoders[0].backbone
    ends = np.cumsum(dims)[:-1]
    with backbone.evaluating():
        passes = _Passes(encoders, sentences, batch_tokens)
        with in_threads(passes.begin, passes.plan(), passes.workers) as computed:
            for indices, vectors in with_next_begun(computed):
                columns = np.split(vectors().numpy(), ends, axis=1)
                for result, rows in zip(results, columns, strict=True):
                    result[indices] = rows
                if on_batch is not None:
                    on_batch(len(indices))
    warn_of_cuts(len(passes.cut), len(sentences), encoders[0].max_length)
    for result in results:
        _check_finite(result, sentences, backbone.dtype)
    return results


class _Passes:
    """Passes of sentences through a network, in batches of similar length.

    Args:
        encoders: Encoders that share the pass; their network is in evaluation mode.
        sentences: The sentences.
        batch_tokens: Number of tokens of a batch; None for a number that suits the device.
    """

    def __init__(
        self,
        encoders: Sequence[Any],
        sentences: Sequence[str],
        batch_tokens: int | None,
    ) -> None:
        backbone = encoders[0].backbone
        self.backbone = backbone
        self.tokenization = encoders[0].tokenization
        self.encoders = encoders
        self.sentences = sentences
        usual = BATCH_TOKENS_ACCELERATOR
        if backbone.device.type == "cpu":
            usual = BATCH_TOKENS_CPU * 4 // backbone.dtype.itemsize
        self.batch_tokens = batch_tokens or usual
        self.cut: list[str] = []
        self.equal_lengths = backbone.findings.equal_lengths
        if self.equal_lengths:
            warn(
                f"encoder: padding changes the vectors of {backbone.path}; only sentences of equal "
                "length share a batch, which takes longer"
            )
        self.prefix = None if self.equal_lengths else self._compute_prefix()
        self.workers = 1 if self.equal_lengths else count_workers(backbone)

    def _compute_prefix(self) -> Prefix | None:
        """Compute the tokens before all sentences, if no encoder pools them."""
        template = self.tokenization.template_tokens
        if template is None or template.text == SLOT or not template.before:
            return None
        few = len(self.sentences) < PREFIX_SENTENCES
        poolings = [encoder.pooling for encoder in self.encoders]
        is_read = not all(
            x.over_tokens or isinstance(x, LastTokenPooling) for x in poolings
        )
        if few or is_read or not self.backbone.findings.continues:
            return None
        return Prefix.compute(self.backbone, template.before)

    def plan(self) -> Iterator[Batch]:
        """Batches of all sentences, the longest first."""
        sentences = self.sentences
        order = sorted(
            range(len(sentences)),
            key=lambda i: (len(sentences[i]), sentences[i]),
            reverse=True,
        )
        for start in range(0, len(order), TOKENIZED_SENTENCES):
            block = order[start : start + TOKENIZED_SENTENCES]
            texts = [sentences[i] for i in block]
            rows = list(self.tokenization.rows(texts, self.cut.append))
            lengths = [len(row["input_ids"]) for row in rows]
            if self.prefix is not None:
                lengths = [length - self.prefix.length for length in lengths]
            batches = plan_batches(
                lengths, texts, self.batch_tokens, self.equal_lengths
            )
            for batch in batches:
                yield [block[k] for k in batch], [rows[k] for k in batch]

    def begin(self, batch: Batch) -> tuple[list[int], Callable[[], Tensor]]:
        """Start a batch: indices of its sentences, and a function that waits for their vectors."""
        indices, rows = batch
        features = to_device(self.backbone.pad(rows), self.backbone.device)
        vectors = compute(self.encoders, features, self.prefix)
        return indices, begin_copy(vectors)


def compute(
    encoders: Sequence[Any],
    features: TokenFeatures,
    prefix: Prefix | None = None,
) -> Tensor:
    """Concatenated vectors of all encoders from one pass: ``(B, D_1 + D_2 + ...)``."""
    top = max(max(encoder.layers) for encoder in encoders)
    inputs: Mapping[str, Any] = features
    if prefix is not None:
        inputs, features = prefix.add_to(features), prefix.cut(features)
    output = encoders[0].backbone(inputs, top)
    return torch.cat([x.pool(output, features) for x in encoders], dim=1)


def _check_finite(
    vectors: Floats, sentences: Sequence[str], dtype: torch.dtype
) -> None:
    """Raise a UserError with the first sentence whose vector is not finite."""
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        sentence = sentences[int(finite.argmin())]
        raise UserError(
            f"received {dtype}, in which the vector of {sentence!r} is not finite; expected "
            "float32, and finite weights",
            argument="dtype",
        )


def plan_batches(
    lengths: Sequence[int],
    sentences: Sequence[str],
    batch_tokens: int,
    equal_lengths: bool = False,
) -> list[list[int]]:
    """Batches of similar length whose padded size stays within ``batch_tokens``.

    The batches do not depend on the order of the sentences. The longest come first, so that a lack
    of memory shows at once.

    Args:
        lengths: Number of tokens of each sentence.
        sentences: The sentences; those of equal length are sorted by their text.
        batch_tokens: Number of tokens of a batch, padding included; a longer sentence is a batch.
        equal_lengths: Whether the sentences of a batch have equal lengths.

    Returns:
        Indices of the sentences of each batch.

    Example:
        >>> plan_batches([2, 5, 2, 4], ["b", "d", "a", "c"], 10)
        [[1, 3], [0, 2]]
    """
    order = sorted(
        range(len(sentences)), key=lambda i: (lengths[i], sentences[i]), reverse=True
    )
    batches: list[list[int]] = []
    for i in order:
        longest = lengths[batches[-1][0]] if batches else 0
        if (
            not batches
            or (len(batches[-1]) + 1) * longest > batch_tokens
            or (equal_lengths and lengths[i] != longest)
        ):
            batches.append([])
        batches[-1].append(i)
    return batches


def count_workers(backbone: Backbone) -> int:
    """Number of threads that may send batches through a frozen network at the same time.

    On two processors, two batches at a time are 1.8 times as fast as one batch on two threads.
    """
    # Recurrent networks keep the state of a text in their modules.
    is_recurrent = backbone.findings.causal and not backbone.findings.continues
    is_busy = is_recurrent or backbone.is_placed
    return 1 if is_busy or backbone.device.type != "cpu" else MAX_WORKERS


def to_device(
    features: Mapping[str, Tensor], device: torch.device
) -> dict[str, Tensor]:
    """Copy features to a device asynchronously."""
    pinned = is_pinned_for(device)
    return {
        name: (value.pin_memory() if pinned else value).to(device, non_blocking=pinned)
        for name, value in features.items()
    }


def begin_copy(values: Tensor) -> Callable[[], Tensor]:
    """Start to copy values to the host; returns a function that waits for them.

    A plain CUDA copy would wait for everything that was started before it, also the next batch.
    """
    if not values.is_cuda:
        return values.cpu
    copy = values.to("cpu", non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def wait() -> Tensor:
        copied.synchronize()
        return copy

    return wait


def with_next_begun(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item after the next one was started, so that a GPU works while it is copied."""
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting
