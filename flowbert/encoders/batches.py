"""Batches of sentences: which share one, and how they go through."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flowbert.arrays import is_pinned_for
from flowbert.encoders.backbone import changes_positions
from flowbert.threads import MAX_WORKERS, Item

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
    changing = [
        changes_positions(getattr(module, "rope_type", "")) or "forward" in vars(module)
        for module in network.modules()
    ]
    if device.type != "cpu" or config.model_type not in SHAREABLE or any(changing):
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
