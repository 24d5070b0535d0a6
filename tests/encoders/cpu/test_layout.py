import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu import layout
from flowbert.encoders.cpu.layout import weights_laid_out

SENTENCES = [f"{' '.join(['a dog runs'] * (1 + n % 5))} {n}" for n in range(40)]


def layers_of(network: nn.Module) -> list[nn.Module]:
    return [module for module in network.modules() if type(module) is nn.Linear]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vectors_are_the_same_up_to_rounding(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", dtype=dtype)
    laid_out = encoder.encode(SENTENCES, batch_tokens=20)
    monkeypatch.setattr(layout, "_LEAST", 10**6)
    plain = encoder.encode(SENTENCES, batch_tokens=20)
    tolerance = {"float32": 2e-5, "bfloat16": 0.05}[dtype]
    torch.testing.assert_close(torch.from_numpy(laid_out), torch.from_numpy(plain), atol=tolerance, rtol=tolerance)


def test_a_network_that_rescales_its_weights_when_it_is_first_used_is_as_it_is_afterwards() -> None:
    tokenizer = SentenceEncoder.from_pretrained("builtin-sample").tokenizer
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "attention_hidden_size": 16, "intermediate_size": 32}
    config = AutoConfig.for_model("rwkv", **sizes, num_hidden_layers=4, rescale_every=2)
    network = AutoModel.from_config(config).eval()  # type: ignore[no-untyped-call]
    encoder = SentenceEncoder(network, tokenizer, pooling="mean")
    first, second = (torch.from_numpy(encoder.encode(SENTENCES, batch_tokens=20)) for _ in range(2))
    torch.testing.assert_close(first, second)


def test_every_dense_layer_is_laid_out_and_put_back_after_an_error() -> None:
    network = SentenceEncoder.from_pretrained("builtin-sample").backbone
    layers = layers_of(network)

    def interrupted() -> None:
        with torch.no_grad(), weights_laid_out(network, 100, 512) as count:
            assert count == len(layers) > 0
            assert all("forward" in vars(layer) for layer in layers)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any("forward" in vars(layer) for layer in layers)


def test_few_batches_and_other_types_stay_as_they_are() -> None:
    network = nn.Sequential(nn.Linear(3, 2))
    for other, batches in ((network, 2), (nn.Sequential(nn.Linear(3, 2)).double(), 100)):
        with weights_laid_out(other, batches, 512) as count:
            assert count == 0


def test_later_weights_count() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
    before = encoder.encode(SENTENCES, batch_tokens=20)
    with torch.no_grad():
        for layer in layers_of(encoder.backbone):
            layer.weight.mul_(0.5)  # type: ignore[operator]
    after = encoder.encode(SENTENCES, batch_tokens=20)
    assert abs(after - before).max() > 0.01


def test_bfloat16_is_left_alone_where_the_processor_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(3, 2).bfloat16(), nn.Linear(3, 2))
    for supported in (True, False):
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda found=supported: found)
        with torch.no_grad(), weights_laid_out(network, 100, 512) as count:
            assert count == 1 + supported


def test_a_layer_with_a_product_of_its_own_keeps_it() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    network[0].forward = own = lambda x: x
    with torch.no_grad(), weights_laid_out(network, 100, 512) as count:
        assert count == 1
        assert network[0].forward is own
    assert network[0].forward is own
