from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.parallel import _SAFE, most_batches
from flowbert.encoders.forward import embed
from flowbert.encoders.pooling import make_pooling

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


def tiny(kind: str, **options: Any) -> nn.Module:
    """A network of a few random weights."""
    config = AutoConfig.for_model(kind, **({"vocab_size": 50, "pad_token_id": 0} | NETWORKS[kind] | options))
    network: nn.Module = AutoModel.from_config(config).eval()  # type: ignore[no-untyped-call]
    return network


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_positions_that_move_while_it_computes_are_left_to_one_worker(rope_type: str) -> None:
    scaling = {"rope_type": rope_type, "rope_theta": 10000.0, "factor": 2.0}
    factors = {"short_factor": [1.0] * 4, "long_factor": [1.0] * 4, "original_max_position_embeddings": 64}
    assert most_batches(tiny("llama")) > 1
    assert most_batches(tiny("llama", rope_parameters=scaling | (factors if rope_type == "longrope" else {}))) == 1


def test_another_device_and_an_unknown_network_are_left_to_one_worker() -> None:
    assert most_batches(tiny("bert")) > 1
    assert most_batches(tiny("bert").to("meta")) == 1
    assert most_batches(nn.Linear(2, 2)) == 1


SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
NETWORKS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_SAFE, SIZES),
    "albert": SIZES | {"embedding_size": 8},
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), SIZES | {"num_key_value_heads": 1}),
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
    "modernbert": SIZES | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "xlnet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32},
    "big_bird": SIZES | {"sep_token_id": 1},
    "funnel": {"d_model": 16, "n_head": 2, "d_head": 8, "block_sizes": [1, 1], "architectures": ["FunnelModel"]},
    "recurrent_gemma": SIZES | {"lru_width": 16, "num_key_value_heads": 1},
    "rwkv": SIZES | {"attention_hidden_size": 16, "rescale_every": 1},
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_that_changes_itself_while_it_computes_is_left_to_one_worker(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = tiny(kind)
    written, set_attribute = set(), nn.Module.__setattr__

    def record(module: nn.Module, name: str, value: Any) -> None:
        written.add(name)
        set_attribute(module, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", record)
    with torch.no_grad():
        for length in (9, 7):
            ids = torch.ones(2, length, dtype=torch.long)
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            embed(network, features, [((1,), make_pooling("mean"))], nn.Identity())
    monkeypatch.undo()
    written.discard("_output_capturing_hooks_installed")  # transformers does that under a lock
    assert (most_batches(network) == 1) == bool(written), written
