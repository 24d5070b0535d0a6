"""Layers that are not read are not computed; several batches are computed at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from encoders.tiny import CONFIGS, SENTENCES, tiny_network
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.passes import SHAREABLE, workers


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


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "albert"])
def test_blocks_above_the_layers_read_are_not_computed(kind, tiny):
    opened = SentenceEncoder(tiny(kind))
    features = opened.tokenize(SENTENCES)
    with torch.no_grad():
        whole = opened.backbone(features)
        opened.backbone(features, 0)  # the blocks are found
    computed = count_blocks(opened)
    for layers, top in (((0,), 0), ((1,), 1), ((0, 2), 2), ((-1,), 3)):
        encoder = opened.read(layers=layers)
        pooled = encoder.pool_output(whole, features)
        computed.clear()
        assert torch.equal(encoder(features), pooled)
        assert computed == list(range(top))


# ----------------------------------------------------------- several batches at a time


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["bert", "llama", "modernbert"])
def test_threads_that_share_a_network_do_not_change_a_bit(kind, tiny, set_threads):
    encoder = SentenceEncoder(tiny(kind), layers="first_last")
    set_threads(1)
    expected = encoder.embed(SENTENCES * 4, batch_tokens=20)
    for threads in (2, 4, 2):
        set_threads(threads)
        # One thread for each batch, as above.
        found = encoder.embed(SENTENCES * 4, batch_tokens=20)
        assert np.array_equal(found, expected)


CHANGING = {
    "big_bird": {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32},
    "rwkv": {"hidden_size": 16, "attention_hidden_size": 16, "rescale_every": 1},
}


@pytest.mark.parametrize("kind", [*SHAREABLE, *CHANGING])
def test_a_network_that_writes_while_it_computes_gets_one_worker(kind, monkeypatch):
    monkeypatch.setattr("encoders.tiny.CONFIGS", CONFIGS | CHANGING)
    network = tiny_network(kind)
    written = set()
    set_attribute = nn.Module.__setattr__

    def record(module, name, value):
        written.add(name)
        set_attribute(module, name, value)

    inputs = [torch.ones(2, length, dtype=torch.long) for length in (9, 7)]
    monkeypatch.setattr(nn.Module, "__setattr__", record)
    with torch.no_grad():
        for ids in inputs:
            network(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                output_hidden_states=True,
            )
    monkeypatch.undo()
    written.discard(
        "_output_capturing_hooks_installed"
    )  # transformers does that under a lock
    assert (workers(network) == 1) == bool(written)


def test_other_devices_get_one_worker():
    assert workers(tiny_network("llama")) > 1
    assert workers(tiny_network("bert").to("meta")) == 1
