"""Layers that are not read are not computed; several batches are computed at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from encoders.tiny import CONFIGS, SENTENCES, tiny_encoder
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.passes import count_workers

# OpenAI GPT's blocks return a list.
KINDS = [*CONFIGS, "openai-gpt"]


def count_blocks(encoder):
    """Indices of the blocks that are computed from now on."""
    network = encoder.backbone.network
    lists = [m for m in network.modules() if isinstance(m, nn.ModuleList)]
    computed = []
    (blocks,) = [each for each in lists if len(each) == encoder.num_layers]
    for number, block in enumerate(blocks):

        def count(*inputs, forward=block.forward, n=number, **options):
            computed.append(n)
            return forward(*inputs, **options)

        block.forward = count
    return computed


# ALBERT repeats a block, XLNet's blocks read transposed states.
WHOLE = ("albert", "xlnet")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WHOLE])
def test_blocks_above_the_layers_read_are_not_computed(kind):
    opened = tiny_encoder(kind)
    features = opened.tokenize(SENTENCES)
    with torch.no_grad():
        whole = opened.backbone(features)
    assert opened.backbone.findings.early_exit
    computed = count_blocks(opened)
    for layers, top in (((0,), 0), ((1,), 1), ((0, 2), 2), ((-1,), 3)):
        encoder = opened.read(layers=layers)
        pooled = encoder.pool(whole, features)
        computed.clear()
        assert torch.equal(encoder(features), pooled)
        assert computed == list(range(top))


@pytest.mark.parametrize("kind", WHOLE)
def test_other_networks_are_computed_whole(kind):
    opened = tiny_encoder(kind, layers=1)
    assert not opened.backbone.findings.early_exit
    features = opened.tokenize(SENTENCES)
    with torch.no_grad():
        whole = opened.backbone(features)
    pooled = opened.pool(whole, features)
    assert torch.equal(opened(features), pooled)


# ----------------------------------------------------------- several batches at a time


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_threads_that_share_a_network_do_not_change_a_bit(kind, tiny, set_threads):
    encoder = SentenceEncoder(tiny(kind), layers="first_last")
    set_threads(1)
    expected = encoder.embed(SENTENCES * 4, batch_tokens=20)
    for threads in (2, 4):
        set_threads(threads)
        # One thread for each batch, as above.
        found = encoder.embed(SENTENCES * 4, batch_tokens=20)
        assert np.array_equal(found, expected)


def test_one_worker_on_other_devices_and_for_networks_with_a_state():
    sizes = {"attention_hidden_size": 16, "rescale_every": 1}
    assert count_workers(tiny_encoder("rwkv", sizes).backbone) == 1
    encoder = tiny_encoder("bert")
    assert count_workers(encoder.backbone) > 1
    encoder.backbone.to("meta")
    assert count_workers(encoder.backbone) == 1
