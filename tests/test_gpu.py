"""A GPU computes what a CPU does; the tests run on the CPU, too, so that their code is tried."""

import numpy as np
import pytest
import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.flows import Glow
from flowbert.training.optim import BertAdam

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
on_devices = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])]
)


def rows(device: str = "cpu") -> Tensor:
    drawn = torch.randn(64, 24, generator=torch.Generator().manual_seed(0))
    return (drawn * 3 + 1).to(device)


def train(flow: Glow, optimizer: BertAdam, x: Tensor, autocast: bool = False) -> None:
    """Three steps."""
    for _ in range(3):
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast):
            loss = flow.nll(x).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def start(mixing: str, device: str) -> tuple[Glow, BertAdam]:
    flow = Glow(24, mixing=mixing, mixing_init="rotation")
    flow.initialize(rows())
    flow.to(device)
    return flow, BertAdam(flow.parameters(), lr=1e-3, weight_decay=0.01)


@torch.no_grad()
def largest_difference(first: Glow, second: Glow) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((one.cpu() - two.cpu()).abs().max()) for one, two in pairs)


@on_devices
@pytest.mark.parametrize("mixing", ["lu", "reverse", "random"])
def test_a_flow_trains_as_on_a_cpu(mixing: str, device: str) -> None:
    expected, optimizer = start(mixing, "cpu")
    train(expected, optimizer, rows())
    for autocast in (False, True):
        flow, optimizer = start(mixing, device)
        train(flow, optimizer, rows(device), autocast)
        # Three steps of at most the learning rate each, whose signs rounding may change.
        assert largest_difference(flow, expected) < 6 * 1e-3
        with torch.no_grad():
            difference = flow.nll(rows(device)).cpu() - expected.nll(rows())
        assert float(difference.abs().max()) < 0.1


@on_devices
def test_a_step_does_not_wait_for_the_device(device: str) -> None:
    flow, optimizer = start("lu", device)
    x = rows(device)
    train(flow, optimizer, x)
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        train(flow, optimizer, x)
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    flow.check_finite()


@on_devices
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("float16", 0.01)])
def test_sentences_are_encoded_as_on_a_cpu(
    dtype: str, bound: float, device: str
) -> None:
    sentences = [" ".join(["a dog runs"] * (1 + n % 4)) + f" {n}" for n in range(30)]
    expected = SentenceEncoder().encode(sentences)
    encoder = SentenceEncoder(dtype=dtype).to(device)
    vectors = encoder.encode(sentences, batch_tokens=64)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
    assert (1 - (vectors * expected).sum(axis=1) / lengths).max() < bound
