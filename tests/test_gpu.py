"""A GPU computes what a CPU does."""

import json

import numpy as np
import pytest
import torch

from device_steps import METHODS, SMALL_FLOW, encoded_on, fit, fitted_on, make
from flowbert.cli import main
from flowbert.encoders import SentenceEncoder
from flowbert.flows import Glow
from flowbert.maps import MAPS
from flowbert.training.optim import BertAdam

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
# The first tests run on the CPU, too.
on_devices = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])]
)


def on_gpu(test):
    return pytest.mark.gpu(NO_GPU(test))


@on_gpu
def test_poolings_are_those_of_a_cpu():
    expected = encoded_on("cpu")
    for name, vectors in encoded_on("cuda").items():
        assert np.abs(vectors - expected[name]).max() < 1e-4, name


def train(flow, optimizer, x):
    """Three steps."""
    for _ in range(3):
        (-flow.log_prob(x).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


@on_devices
def test_a_step_does_not_wait_for_the_device(device):
    drawn = torch.randn(64, 24, generator=torch.Generator().manual_seed(0))
    flow = Glow(24, mixing_init="rotation")
    flow.initialize(drawn)
    x = drawn.to(device)
    optimizer = BertAdam(flow.to(device).parameters(), lr=1e-3, weight_decay=0.01)
    train(flow, optimizer, x)
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        train(flow, optimizer, x)
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    assert all(weight.isfinite().all() for weight in flow.parameters())


@on_devices
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("float16", 0.01)])
def test_sentences_are_encoded_as_on_a_cpu(dtype, bound, device):
    sentences = [" ".join(["a dog runs"] * (1 + n % 4)) + f" {n}" for n in range(30)]
    expected = SentenceEncoder().encode(sentences)
    encoder = SentenceEncoder(dtype=dtype).to(device)
    vectors = encoder.embed(sentences, batch_tokens=64)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
    assert (1 - (vectors * expected).sum(axis=1) / lengths).max() < bound


@on_gpu
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_as_on_a_cpu(method, precision, tmp_path):
    module, data = make(method)
    options = {"accelerator": "gpu", "devices": 1, "precision": precision}
    found = fit(tmp_path, module, data, **options)
    module, data = make(method)
    expected = fit(tmp_path, module, data, accelerator="cpu", precision=precision)
    # A GPU draws other noise for a flow.
    tolerance = 0.1 if method == "flow" else 0.05 if "bf16" in precision else 1e-3
    assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)


@on_gpu
@pytest.mark.parametrize("name", list(MAPS))
def test_a_map_is_that_of_a_cpu(name):
    # With all directions removed in part, nothing fixes the scale of learned-removal.
    texts = {**SMALL_FLOW, "learned-removal": "learned-removal-2"}
    expected, found = (
        fitted_on(device, texts.get(name, name))[1:] for device in ("cpu", "cuda")
    )
    # A GPU draws other random numbers for the noise of a flow.
    bound = 0.1 if name == "flow" else 1e-4
    for one, other in zip(found, expected, strict=True):
        assert one.device.type == "cuda"
        largest = float((one.cpu() - other).abs().max())
        assert largest < bound * float(other.abs().max())


@on_gpu
@pytest.mark.filterwarnings("default")
def test_commands(tmp_path):
    scores = {}
    for device in ("cpu", "cuda"):
        file = tmp_path / f"{device}.json"
        words = f"compare --methods raw,whitening,flow --bootstrap 0 --device {device}"
        main([*words.split(), "--cache", str(tmp_path / device), "--output", str(file)])
        rows = json.loads(file.read_text())["rows"]
        keys = ("method", "metric", "aggregation")
        scores[device] = {tuple(row[k] for k in keys): row["value"] for row in rows}
    for key, value in scores["cpu"].items():
        # A flow draws its noise on the device.
        bound = 0.03 if key[0] == "flow" else 1e-4
        assert abs(scores["cuda"][key] - value) < bound, key
