from collections.abc import Iterator

import pytest
import torch

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.transfer import one_behind, to_device

SENTENCES = ["a dog runs", "the cat sleeps on a mat", "two men talk", "a", "it rains again today"]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_an_item_is_handed_out_when_the_next_one_is_there(count: int) -> None:
    told = []

    def items() -> Iterator[int]:
        for number in range(count):
            told.append(f"made {number}")
            yield number

    for item in one_behind(items()):
        told.append(f"fetched {item}")
    made = [told.index(f"made {number}") for number in range(count)]
    fetched = [told.index(f"fetched {number}") for number in range(count)]
    assert fetched == sorted(fetched)
    assert all(later < now for now, later in zip(fetched, made[1:], strict=False))
    assert all(now < after for now, after in zip(fetched, made[2:], strict=False))


def test_a_batch_is_fetched_after_the_next_one_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    told: list[str] = []
    embed = encoder._embed_chunks

    def computed(chunks: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        told.append("computed")
        return embed(chunks)

    monkeypatch.setattr(encoder, "_embed_chunks", computed)
    whole = encoder.encode(SENTENCES)
    told.clear()
    by_sentence = encoder.encode(SENTENCES, batch_tokens=1, on_batch=lambda _: told.append("fetched"))
    assert told == ["computed", *["computed", "fetched"] * (len(SENTENCES) - 1), "fetched"]
    torch.testing.assert_close(torch.from_numpy(by_sentence), torch.from_numpy(whole), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")],
        ),
    ],
)
def test_features_arrive_as_they_are(device: str) -> None:
    features = {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.tensor([[1, 1]])}
    there = to_device(features, torch.device(device))
    assert {name: value.device.type for name, value in there.items()} == dict.fromkeys(features, device)
    assert all(torch.equal(there[name].cpu(), value) for name, value in features.items())
