"""Packed sentences against padded ones, several batches at a time against one."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from encoders.tiny import CONFIGS, SENTENCES, TOLERANCE, tiny_network
from flowbert.encoders import SentenceEncoder, cpu
from flowbert.encoders.cpu import PACKABLE, SHAREABLE, fast_training, workers
from flowbert.encoders.depth import up_to_layers_read

Tiny = Callable[[str], Path]
TRANSFORMERS_4 = transformers.__version__.startswith("4.")
packs = pytest.mark.skipif(
    TRANSFORMERS_4,
    reason="packing needs networks of transformers 5, whose attention can be replaced",
)


def open_tiny(path: Path, dropout: float = 0.0, **options: Any) -> SentenceEncoder:
    """An encoder that trains, with this rate in all dropout layers."""
    encoder = SentenceEncoder(path, frozen=False, **options)
    module: Any
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif hasattr(module, "dropout_prob"):  # of the attention in some networks
            module.dropout_prob = dropout
    return encoder


def chunks_of(encoder: SentenceEncoder) -> list[dict[str, Tensor]]:
    return [
        encoder.tokenize(SENTENCES[:3]),
        encoder.tokenize(["", *SENTENCES[3:]]),
        encoder.tokenize(["a cat", "a dog"]),
    ]


def with_gradients(encoder: SentenceEncoder) -> tuple[Tensor, list[Tensor]]:
    vectors = encoder(*chunks_of(encoder))
    weights = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1))
    parameters = [
        parameter for parameter in encoder.parameters() if parameter.requires_grad
    ]
    gradients = torch.autograd.grad(
        (vectors * weights).sum(), parameters, allow_unused=True
    )
    return vectors, [gradient for gradient in gradients if gradient is not None]


@packs
@pytest.mark.parametrize("kind", PACKABLE)
def test_vectors_and_gradients_are_those_of_padded_chunks(
    kind: str, tiny: Tiny
) -> None:
    encoder = open_tiny(tiny(kind), layers="first_last")
    padded, gradients = with_gradients(encoder)
    with fast_training(encoder):
        assert encoder.packs
        packed, packed_gradients = with_gradients(encoder)
    torch.testing.assert_close(packed, padded, atol=TOLERANCE, rtol=0)
    for one, other in zip(packed_gradients, gradients, strict=True):
        # Gradients sum over the 9 sentences of 64 tokens.
        torch.testing.assert_close(one, other, atol=64 * TOLERANCE, rtol=1e-3)


@packs
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", PACKABLE)
def test_layers_above_those_read_are_not_computed(
    kind: str, packed: bool, tiny: Tiny
) -> None:
    for top in (0, 1):
        encoder = open_tiny(tiny(kind), layers=top)
        with fast_training(encoder) if packed else nullcontext():
            vectors, gradients = with_gradients(encoder)
            names = list(encoder.backbone.network.state_dict())
            with up_to_layers_read(encoder):
                found, found_gradients = with_gradients(encoder)
                # All layers of ALBERT are one module.
                assert encoder.backbone.computed == (None if kind == "albert" else top)
                if kind != "albert":
                    with pytest.raises(RuntimeError, match="not computed"):
                        encoder.variant(layers="last").encode(SENTENCES)
        assert names == list(encoder.backbone.network.state_dict())
        assert torch.equal(found, vectors)
        for one, other in zip(found_gradients, gradients, strict=True):
            assert torch.equal(one, other)
        last = encoder.variant(layers="last").encode(SENTENCES)
        expected = open_tiny(tiny(kind)).encode(SENTENCES)
        np.testing.assert_array_equal(last, expected)


@packs
def test_no_multiplication_above_the_layers_read(tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert"), layers="1,2")
    network: Any = encoder.backbone.network
    called = []
    for number, layer in enumerate(network.encoder.layer):
        layer.intermediate.dense.register_forward_hook(
            lambda *_, number=number: called.append(number)
        )
    with up_to_layers_read(encoder):
        encoder(*chunks_of(encoder)[:1])
    assert called == [0, 1]


@pytest.mark.parametrize(
    "pooling", ["mean", "cls", "max", "last_token", "position_mean", "idf"]
)
def test_every_pooling_of_packed_variants(pooling: str, tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert"), pooling=pooling, count_over=SENTENCES)
    variants = [
        encoder.variant(layers=layers) for layers in ((0,), (3,), (1, 3), (3, 2))
    ]
    padded = encoder.read([each.readout for each in variants], SENTENCES)
    with fast_training(encoder):
        packed = encoder.read([each.readout for each in variants], SENTENCES)
    np.testing.assert_allclose(packed, padded, atol=TOLERANCE)


@packs
@pytest.mark.parametrize("kind", PACKABLE)
def test_vectors_are_the_same_on_every_processor(
    kind: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_tiny(tiny(kind))
    network: Any = encoder.backbone.network
    attend, lengths = functional.scaled_dot_product_attention, set[int]()

    def spy(query: Tensor, key: Tensor, *args: Any, **options: Any) -> Tensor:
        lengths.add(key.shape[2])
        return attend(query, key, *args, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", spy)
    found = []
    for lanes in (1, 16):  # without AVX-512, and with it
        monkeypatch.setattr(cpu, "unaligned", lambda length, n=lanes: -length % n)
        vectors = [encoder.encode(SENTENCES), encoder.encode(["a cat", "a dog"])]
        found.append(np.concatenate(vectors))
        assert any(length % 16 for length in lengths) == (lanes == 1)
        lengths.clear()
    np.testing.assert_allclose(found[1], found[0], atol=TOLERANCE)
    assert network.config._attn_implementation == "sdpa"


@packs
def test_layers_compute_no_padding(tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert"))
    chunks = chunks_of(encoder)
    computed: list[int] = []
    network: Any = encoder.backbone.network
    network.encoder.layer[0].intermediate.register_forward_hook(
        lambda _module, _inputs, output: computed.append(output.shape[:-1].numel())
    )
    with fast_training(encoder):
        encoder(*chunks)
    assert computed == [sum(int(chunk["attention_mask"].sum()) for chunk in chunks)]


@packs
def test_the_attention_drops_out(tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert"))
    features = [encoder.tokenize(["the cat"] * 100)]
    with fast_training(encoder):
        assert encoder(*features).std(dim=0).max() < TOLERANCE
        network: Any = encoder.backbone.network
        for layer in network.encoder.layer:
            layer.attention.self.dropout.p = 0.3
        torch.manual_seed(0)
        dropped = encoder(*features)
        assert dropped.std(dim=0).max() > 10 * TOLERANCE
        torch.manual_seed(0)
        assert torch.equal(encoder(*features), dropped)


def test_packed_bfloat16_is_close(tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert")).eval()
    exact = encoder(*chunks_of(encoder))
    with fast_training(encoder), torch.autocast("cpu", torch.bfloat16):
        rounded = encoder(*chunks_of(encoder))
    # 20 roundings of 2 ** -8 one after another turn a vector by at most their sum.
    assert torch.cosine_similarity(exact, rounded).min() > 1 - (20 * 2.0**-8) ** 2 / 2


@pytest.mark.parametrize("interruption", [None, KeyboardInterrupt, ValueError])
def test_nothing_stays(interruption: type[BaseException] | None, tiny: Tiny) -> None:
    encoder = open_tiny(tiny("bert"))
    before = encoder.encode(SENTENCES)
    try:
        with fast_training(encoder):
            if interruption is not None:
                raise interruption
    except (KeyboardInterrupt, ValueError):
        pass
    assert not encoder.packs
    assert np.array_equal(encoder.encode(SENTENCES), before)


@pytest.mark.parametrize(
    ("kind", "pooling", "device"),
    [("mpnet", "mean", "cpu"), ("bert", "cls_pooler", "cpu"), ("bert", "mean", "meta")],
)
def test_what_cannot_pack_stays_padded(
    kind: str, pooling: str, device: str, tiny: Tiny
) -> None:
    encoder = open_tiny(tiny(kind), pooling=pooling).to(device)
    with fast_training(encoder):
        assert not encoder.packs


# ----------------------------------------------------------- several batches at a time


@pytest.fixture
def set_threads() -> Any:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_do_not_change_a_bit(set_threads: Callable[[int], None]) -> None:
    encoder = SentenceEncoder("builtin-sample")
    texts = [f"{' '.join(['a dog runs'] * (1 + n % 5))} {n}" for n in range(40)]
    set_threads(1)
    expected = encoder.encode(texts, batch_tokens=60)
    for threads in (2, 4):
        set_threads(threads)
        # One thread for each batch, as above.
        assert np.array_equal(encoder.encode(texts, batch_tokens=60), expected)


CHANGING: dict[str, dict[str, Any]] = {
    "big_bird": {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32},
    "rwkv": {"hidden_size": 16, "attention_hidden_size": 16, "rescale_every": 1},
}


@pytest.mark.parametrize("kind", [*SHAREABLE, *CHANGING])
def test_a_network_that_writes_while_it_computes_gets_one_worker(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoders.tiny.CONFIGS", CONFIGS | CHANGING)
    network = tiny_network(kind)
    written = set()
    set_attribute = nn.Module.__setattr__

    def record(module: nn.Module, name: str, value: Any) -> None:
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


def test_moving_positions_and_other_devices_get_one_worker() -> None:
    assert workers(tiny_network("llama")) > 1
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    name = "rope_scaling" if TRANSFORMERS_4 else "rope_parameters"
    options: dict[str, Any] = {name: rope}
    assert workers(tiny_network("llama", **options)) == 1
    assert workers(tiny_network("bert").to("meta")) == 1
