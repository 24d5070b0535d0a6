"""The one switch for what makes training on a CPU fast: opt-in, and undone at its end."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flowbert.encoders.cpu.allocation import freed_memory_kept
from flowbert.encoders.cpu.attention import attention
from flowbert.encoders.cpu.dropout import fast_dropout
from flowbert.encoders.cpu.packing import can_pack, packed_attention
from flowbert.encoders.encoder import SentenceEncoder


@contextmanager
def fast_training(encoder: SentenceEncoder | None = None) -> Iterator[None]:
    """Train on a CPU at full speed meanwhile; on other devices nothing happens.

    Sentences go through the encoder without padding (where it cannot do that, with plain attention: torch's fused one
    falls back to float32 where it drops out), dropout draws its masks four at a time, and freed memory stays with the
    process. All of it ends with the block, also by an exception or Ctrl-C. Inside of Lightning hooks, enter it with a
    :class:`contextlib.ExitStack` and close that in ``on_train_end`` and ``on_exception``.

    Args:
        encoder: The encoder to train, on its device; without one only memory is kept.

    Example:
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
        >>> with fast_training(encoder):
        ...     encoder.packs
        True
        >>> encoder.packs
        False
    """
    with ExitStack() as stack:
        if encoder is None or encoder.device.type == "cpu":
            stack.enter_context(freed_memory_kept())
        if encoder is not None and encoder.device.type == "cpu":
            network, packs = encoder.backbone, can_pack(encoder.backbone) and encoder.pooling != "cls_pooler"
            stack.enter_context(fast_dropout(network))
            stack.enter_context(packed_attention(network) if packs else attention(network, "eager"))
        yield
