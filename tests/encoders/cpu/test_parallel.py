from collections.abc import Callable

import numpy as np
import pytest
from torch import nn

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.parallel import most_batches

SENTENCES = [f"{' '.join(['a dog runs'] * (1 + n % 5))} {n}" for n in range(40)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch_tokens", [8, 60])
def test_an_encoder_gives_the_same_bits(dtype: str, batch_tokens: int, set_threads: Callable[[int], None]) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", dtype=dtype)
    set_threads(1)
    expected = encoder.encode(SENTENCES, batch_tokens=batch_tokens)
    for threads in (2, 4):
        set_threads(threads)
        np.testing.assert_array_equal(encoder.encode(SENTENCES, batch_tokens=batch_tokens), expected)


@pytest.mark.parametrize(
    "rope_type", ["dynamic", "longrope", {"full_attention": "dynamic", "sliding_attention": "default"}]
)
def test_positions_that_move_while_it_computes_are_left_to_one_worker(rope_type: object) -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Identity())
    for kind, alone in (("default", False), (rope_type, True)):
        network[1].rope_type = kind  # type: ignore[assignment]
        assert (most_batches(network) == 1) == alone
