"""Passes of sentences through a network in batches, each of which serves several readings of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.arrays import Floats, is_pinned_for
from flowbert.encoders.pooling import (
    FirstTokenPooling,
    LastTokenPooling,
    TokenFeatures,
)
from flowbert.encoders.prefix import Prefix
from flowbert.encoders.template import SLOT
from flowbert.errors import UserError, warn
from flowbert.threads import MAX_WORKERS, Item, in_threads

if TYPE_CHECKING:
    from flowbert.encoders.encoder import SentenceEncoder


# Kinds whose modules write nothing while they compute, so that threads may share them.
SHAREABLE = (
    "albert",
    "bert",
    "camembert",
    "deberta-v2",
    "distilbert",
    "electra",
    "gpt2",
    "llama",
    "mistral",
    "modernbert",
    "mpnet",
    "qwen2",
    "qwen3",
    "roberta",
    "roformer",
    "xlm-roberta",
    "xlnet",
)


# Larger batches fall out of the caches of a CPU; an accelerator needs many tokens at once.
BATCH_TOKENS_CPU = 512  # in float32; twice as many in half precision, a tenth faster
BATCH_TOKENS_ACCELERATOR = 16384

PREFIX_SENTENCES = 16
"""Sentences from which the tokens before them are computed once; with fewer, it is slower."""

TOKENIZED_SENTENCES = 1024
"""Sentences that are tokenized at once, while the network computes those before them."""


Batch = tuple[list[int], list[dict[str, list[int]]]]
"""Numbers of the sentences of a pass, and the token features of each."""


def encode_together(
    encoders: Sequence["SentenceEncoder"],
    sentences: Sequence[str],
    *,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> list[Floats]:
    """Vectors of several encoders from one pass, as each alone gives them.

    Args:
        encoders: Encoders with equal ``backbone_key``.
        sentences: N sentences.
        batch_tokens: Tokens of a batch, as in
            :meth:`~flowbert.encoders.SentenceEncoder.embed`.
        on_batch: Called with the number of sentences after each batch.

    Returns:
        For each encoder shape ``(N, D)``, float32.

    Raises:
        UserError: If a vector is not finite, a sentence has no tokens, or a vector depends on more
            than its sentence.
    """
    sentences = list(sentences)  # a Series is indexed by its labels
    backbone, tokenization = encoders[0].backbone, encoders[0].tokenization
    device = backbone.device
    if batch_tokens is None:
        batch_tokens = BATCH_TOKENS_ACCELERATOR
        if device.type == "cpu":
            batch_tokens = BATCH_TOKENS_CPU * 4 // backbone.dtype.itemsize
    shapes = [(len(sentences), encoder.dim) for encoder in encoders]
    results: list[Floats] = [np.empty(shape, dtype=np.float32) for shape in shapes]
    if not len(sentences):
        return results
    ends = np.cumsum([encoder.dim for encoder in encoders])[:-1]

    count_cut = 0

    def plan(prefix: Prefix | None, equal_lengths: bool) -> Iterator[Batch]:
        nonlocal count_cut
        order = sorted(
            range(len(sentences)),
            key=lambda i: (len(sentences[i]), sentences[i]),
            reverse=True,
        )
        for start in range(0, len(order), TOKENIZED_SENTENCES):
            block = order[start : start + TOKENIZED_SENTENCES]
            texts = [sentences[i] for i in block]
            rows, cuts = zip(*tokenization.rows_and_cuts(texts), strict=True)
            count_cut += sum(cuts)
            lengths = [len(row["input_ids"]) for row in rows]
            _warn_of_equal_vectors(encoders, texts, rows)
            if prefix is not None:
                lengths = [length - prefix.length for length in lengths]
            for batch in plan_batches(lengths, texts, batch_tokens, equal_lengths):
                yield [block[k] for k in batch], [rows[k] for k in batch]

    def embed(batch: Batch) -> tuple[list[int], Callable[[], Tensor]]:
        indices, rows = batch
        features = to_device(backbone.pad(rows), device)
        return indices, begin_copy(compute(encoders, features, prefix))

    with backbone.evaluating():
        equal_lengths = backbone.findings.equal_lengths
        if equal_lengths:
            warn(
                f"encoder: padding changes the vectors of {backbone.path}; only sentences of equal "
                "length share a batch, which takes longer"
            )
        equal_lengths = equal_lengths or bool(backbone.moving)
        prefix = None if equal_lengths else _prefix(encoders, len(sentences))
        batches = plan(prefix, equal_lengths)
        # Rotary positions that follow the longest text are written in a pass.
        most = 1 if equal_lengths else workers(backbone.network)
        with in_threads(embed, batches, most) as computed:
            for indices, vectors in with_next_begun(computed):
                columns = np.split(vectors().numpy(), ends, axis=1)
                for result, rows in zip(results, columns, strict=True):
                    result[indices] = rows
                if on_batch is not None:
                    on_batch(len(indices))
    if count_cut:
        warn(
            f"max_length: {count_cut} of {len(sentences)} sentences were cut to "
            f"{tokenization.reading.max_length} tokens"
        )
    for result in results:
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            sentence = sentences[int(finite.argmin())]
            raise UserError(
                f"received {backbone.dtype}, in which the vector of {sentence!r} is not "
                "finite; expected float32, and finite weights",
                argument="dtype",
            )
    return results


def compute(
    encoders: Sequence["SentenceEncoder"],
    features: TokenFeatures,
    prefix: Prefix | None = None,
) -> Tensor:
    """Vectors of all encoders from one pass, next to each other: ``(B, D_1 + D_2 + ...)``."""
    top = max(max(encoder.reading.layers) for encoder in encoders)
    inputs = features
    if prefix is not None:
        inputs, features = prefix.add_to(features), prefix.cut(features)
    output = encoders[0].backbone(inputs, top)
    return torch.cat([x.pool_output(output, features) for x in encoders], dim=1)


def _prefix(encoders: Sequence["SentenceEncoder"], count: int) -> Prefix | None:
    """The computed tokens before ``count`` sentences, if no encoder reads them."""
    template = encoders[0].tokenization.template_tokens
    if count < PREFIX_SENTENCES or template is None or template.text == SLOT:
        return None
    poolings = {type(encoder.pooling) for encoder in encoders}
    if not all(x.over_tokens or x is LastTokenPooling for x in poolings):
        return None
    return Prefix.compute(encoders[0].backbone, template.before)


def _warn_of_equal_vectors(
    encoders: Sequence["SentenceEncoder"],
    sentences: Sequence[str],
    rows: Sequence[dict[str, list[int]]],
) -> None:
    """Warn if a decoder's vectors are those of one token in front of all sentences."""
    is_read = any(isinstance(x.pooling, FirstTokenPooling) for x in encoders)
    is_same = len({row["input_ids"][0] for row in rows}) == 1 < len(set(sentences))
    if is_read and is_same and encoders[0].backbone.findings.causal:
        warn(
            f"encoder: all vectors of {encoders[0].path} with pooling cls are equal: the first "
            "token of all sentences is the same, and reads none behind it; expected last_token"
        )


def plan_batches(
    lengths: Sequence[int],
    sentences: Sequence[str],
    batch_tokens: int,
    equal_lengths: bool = False,
) -> list[list[int]]:
    """Batches of similar length whose padded size stays within ``batch_tokens``.

    The order of the sentences plays no role. The longest come first, so that a lack of memory shows
    at once.

    Args:
        lengths: Tokens of each sentence.
        sentences: The sentences, which order those of equal length.
        batch_tokens: Tokens of a batch, padding included; a longer sentence is a batch alone.
        equal_lengths: Whether the sentences of a batch have equal lengths.

    Returns:
        Indices of sentences, each once.

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


def workers(network: nn.Module) -> int:
    """Number of batches that threads may send through a frozen network at the same time.

    Two at a time on two processors are 1.8 times as fast as one on all threads.

    Args:
        network: The network, after its first pass.
    """
    config: Any = network.config
    device = next(network.parameters()).device
    # From 4.52 to 5.1 transformers replaces the methods of blocks in each pass.
    changing = any("forward" in vars(module) for module in network.modules())
    if device.type != "cpu" or config.model_type not in SHAREABLE or changing:
        return 1
    return MAX_WORKERS


def to_device(
    features: Mapping[str, Tensor], device: torch.device
) -> dict[str, Tensor]:
    """Features on a device, of which the host does not wait for the copy."""
    pinned = is_pinned_for(device)
    return {
        name: (value.pin_memory() if pinned else value).to(device, non_blocking=pinned)
        for name, value in features.items()
    }


def begin_copy(values: Tensor) -> Callable[[], Tensor]:
    """Begin to copy values to the host; the function that is returned waits for them.

    A plain copy of CUDA waits for all that was begun before it, the next batch too.
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
    """Each item once the next is being computed, so that a GPU has work while one is copied."""
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting
