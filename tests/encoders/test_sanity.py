"""What the sanity check of a network and its tokenizer finds, and what follows from it."""

from typing import Any

import numpy as np
import pytest

from encoders.tiny import (
    CONFIGS,
    SENTENCES,
    assert_near,
    tiny_encoder,
)
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.encoder import encode_counted
from helpers import refused, warned

# Of the two, bfloat16 has the larger units.
HALF = [(kind, "bfloat16") for kind in CONFIGS]
HALF += [(kind, "float16") for kind in ("bert", "llama", "xlnet")]


def hooked(hook):
    """A BERT whose first block's output goes through a function."""
    encoder: Any = tiny_encoder()
    block = encoder.backbone.network.encoder.layer[0].output
    block.register_forward_hook(lambda _, __, output: hook(output))
    return encoder


# ------------------------------------------------------- vectors of the sentence alone


@pytest.mark.parametrize(("kind", "dtype"), HALF)
def test_rounding_is_no_finding(kind, dtype, tiny):
    """Warnings are errors here; in float32 all other tests show it."""
    half = SentenceEncoder(tiny(kind), dtype=dtype)
    if kind == "xlnet":  # transformers multiplies two precisions
        for opened in (half, SentenceEncoder(tiny(kind), dtype=dtype, layers=0)):
            refused(
                "'xlnet', which does not compute a vector", opened.encode, SENTENCES
            )
        return
    half.encode(SENTENCES)
    assert not half.backbone.findings.equal_lengths


def shift_by_padding(states):
    return states + 0.01 * states.shape[1]


@pytest.mark.parametrize("kind", ["fnet", "nystromformer", "shifted"])
def test_where_padding_changes_vectors_batches_have_equal_lengths(kind):
    is_hooked = kind == "shifted"
    opened = hooked(shift_by_padding) if is_hooked else tiny_encoder(kind)
    texts = [*SENTENCES, "cat", "the dog", "a bird", "the big dog", "a cat sleeps"]
    with warned("padding changes the vectors"):
        alone = np.concatenate([opened.encode([text]) for text in texts])
    batches: list[int] = []
    with warned("padding changes the vectors"):
        (together,) = encode_counted([opened], texts, batches.append)
    assert_near(together, alone)
    assert len(batches) == len(set(opened.lengths(texts))) < len(texts)


# ------------------------------------------------------------ networks of other shapes

NETWORKS = {
    "canine": {},
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 8},
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_layers_without_a_vector_for_each_token(kind):
    opened = tiny_encoder(kind, NETWORKS[kind])
    refused(f"'{kind}', which does not compute a vector", opened.encode, ["a cat"])
