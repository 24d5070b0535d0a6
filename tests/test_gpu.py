"""What a GPU computes is what a CPU computes. Each test runs on the CPU, too, so that its code is known to run."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.flows import Glow
from flowbert.training.optim import BertAdam

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])])


def rows(count: int = 64, dim: int = 24) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0)) * 3 + 1


class Training:
    """A flow and its optimizer, a step at a time."""

    def __init__(self, mixing: str, device: str) -> None:
        self.device = device
        self.flow = Glow(24, mixing=mixing, mixing_init="rotation")
        self.flow.initialize(rows())
        self.flow.to(device)
        self.optimizer = BertAdam(self.flow.parameters(), lr=1e-3, weight_decay=0.01)

    def steps(self, count: int, x: Tensor, autocast: bool = False) -> "Training":
        for _ in range(count):
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=autocast):
                loss = self.flow.nll(x).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad()
        return self

    @property
    def state(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu() for name, value in self.flow.state_dict().items()}


@contextmanager
def waiting_is_an_error(device: str) -> Iterator[None]:
    """Where there is a GPU: an operation that waits for it raises."""
    if device != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def check_close(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=tolerance, rtol=tolerance)


@on_devices
@pytest.mark.parametrize("mixing", ["lu", "reverse", "random"])
def test_a_flow_trains_as_on_a_cpu(mixing: str, device: str) -> None:
    expected = Training(mixing, "cpu").steps(5, rows()).state
    found = Training(mixing, device).steps(5, rows().to(device)).state
    check_close(found, expected, 1e-4)


@on_devices
def test_autocast_does_not_move_a_flow(device: str) -> None:
    x = rows().to(device)
    expected = Training("lu", device).steps(3, x).state
    found = Training("lu", device).steps(3, x, autocast=True).state
    check_close(found, expected, 1e-6)


@on_devices
def test_a_training_goes_on_where_it_stopped(device: str) -> None:
    x = rows().to(device)
    whole = Training("lu", device).steps(6, x).state
    first, second = Training("lu", device).steps(3, x), Training("lu", device)
    second.flow.load_state_dict(first.flow.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    check_close(second.steps(3, x).state, whole, 1e-6)


@on_devices
def test_a_step_does_not_wait_for_the_device(device: str) -> None:
    x = rows().to(device)
    training = Training("lu", device).steps(1, x)
    with waiting_is_an_error(device):
        training.steps(2, x)
    training.flow.check_finite()


@on_devices
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.05)])
def test_sentences_are_encoded_as_on_a_cpu(dtype: str, tolerance: float, device: str) -> None:
    sentences = [" ".join(["a dog runs"] * (1 + n % 4)) + f" {n}" for n in range(30)]
    expected = torch.from_numpy(SentenceEncoder.from_pretrained("builtin-sample").encode(sentences))
    encoder = SentenceEncoder.from_pretrained("builtin-sample", dtype=dtype).to(device)
    found = torch.from_numpy(encoder.encode(sentences, batch_tokens=64))
    assert float((1 - torch.cosine_similarity(found, expected)).max()) < tolerance
