"""A GPU computes what a CPU does."""

import json

import numpy as np
import pytest
import torch

from device_steps import METHODS, fit, make
from encoders.tiny import SENTENCES, tiny_network, word_tokenizer
from fits import make_rows
from flowbert import Model
from flowbert.cli import main
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.pooling import POOLINGS
from flowbert.flows import Glow
from flowbert.maps import MAPS, make_map
from flowbert.training.optim import BertAdam

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
# The first tests run on the CPU, too.
on_devices = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])]
)


def on_gpu(test):
    return pytest.mark.gpu(NO_GPU(test))


def rows(device="cpu"):
    drawn = torch.randn(64, 24, generator=torch.Generator().manual_seed(0))
    return (drawn * 3 + 1).to(device)


def train(flow, optimizer, x, autocast=False):
    """Three steps."""
    for _ in range(3):
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast):
            loss = flow.nll(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def start(mixing, device):
    torch.manual_seed(1)
    flow = Glow(24, mixing=mixing, mixing_init="rotation")
    flow.initialize(rows())
    # Many gradients at the initialization are 0 but for rounding, and Adam moves by their sign.
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    flow.to(device)
    return flow, BertAdam(flow.parameters(), lr=1e-3, weight_decay=0.01)


@torch.no_grad()
def largest_difference(first, second):
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((one.cpu() - two.cpu()).abs().max()) for one, two in pairs)


@on_devices
@pytest.mark.parametrize("mixing", ["lu", "reverse", "random"])
def test_a_flow_trains_as_on_a_cpu(mixing, device):
    expected, optimizer = start(mixing, "cpu")
    train(expected, optimizer, rows())
    for autocast in (False, True):
        flow, optimizer = start(mixing, device)
        train(flow, optimizer, rows(device), autocast)
        # Rows that differ by rounding (2e-7) move them by 1e-5 at most.
        assert largest_difference(flow, expected) < 1e-3
        with torch.no_grad():
            difference = flow.nll(rows(device)).cpu() - expected.nll(rows())
        assert float(difference.abs().max()) < 0.01


@on_devices
def test_a_step_does_not_wait_for_the_device(device):
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
def test_sentences_are_encoded_as_on_a_cpu(dtype, bound, device):
    sentences = [" ".join(["a dog runs"] * (1 + n % 4)) + f" {n}" for n in range(30)]
    expected = SentenceEncoder().encode(sentences)
    encoder = SentenceEncoder(dtype=dtype).to(device)
    vectors = encoder.encode(sentences, batch_tokens=64)
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
    x = torch.from_numpy(make_rows(200))
    pairs = x[:40], x[40:80], np.arange(40.0)
    # With all directions removed in part, nothing fixes the scale of learned-removal.
    options = {"flow": ":levels=1:depth=1:width=4:steps=2"}
    text = name + (options | {"learned-removal": ":n_directions=2"}).get(name, "")
    found, expected = make_map(text), make_map(text)
    for each, device in ((found, "cuda"), (expected, "cpu")):
        each.set_run_parameters(0, device)
        there = pairs[0].to(device), pairs[1].to(device), pairs[2]
        each.fit(x.to(device), pairs=there if each.supervised else None)
    mapped = found.transform(x.cuda())
    assert mapped.device.type == "cuda"
    scale = float(expected.transform(x).abs().max())
    # A GPU draws other random numbers for the noise of a flow.
    bound = 0.1 if name == "flow" else 1e-4
    difference = (mapped.cpu() - expected.transform(x)).abs().max()
    assert float(difference) < bound * scale
    back = found.inverse_transform(mapped).cpu() - expected.inverse_transform(
        expected.transform(x)
    )
    assert float(back.abs().max()) < bound * float(x.abs().max())


@on_gpu
@pytest.mark.filterwarnings("ignore:encoder. .* has no learned token weights")
@pytest.mark.parametrize("pooling", [*POOLINGS, "mean:unit=true", "zipf:cls=2"])
def test_a_pooling_is_that_of_a_cpu(pooling):
    every = SentenceEncoder(Backbone(tiny_network("bert"), word_tokenizer()))
    layers = every.num_layers if pooling == "cls_pooler" else [0, 1]
    encoder = every.variant(layers=layers, pooling=pooling, count_over=SENTENCES)
    expected = encoder.encode(SENTENCES)
    found = encoder.to("cuda").encode(SENTENCES)
    assert np.abs(found - expected).max() < 1e-4


@on_gpu
@pytest.mark.filterwarnings("default")
def test_commands(tmp_path):
    scores = {}
    for device in ("cpu", "cuda"):
        file = tmp_path / f"{device}.json"
        words = f"compare --methods raw,whitening,flow --bootstrap 0 --device {device}"
        main([*words.split(), "--cache", str(tmp_path / device), "--output", str(file)])
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
        keys = ("method", "metric", "aggregation")
        scores[device] = {tuple(row[k] for k in keys): row["value"] for row in rows}
    for key, value in scores["cpu"].items():
        # A flow draws its noise on the device.
        bound = 0.03 if key[0] == "flow" else 1e-4
        assert abs(scores["cuda"][key] - value) < bound, key
    run = tmp_path / "run"
    words = "fit --config quickstart --trainer.accelerator gpu --trainer.devices 1"
    main([*words.split(), "--cache", str(tmp_path / "cuda"), "--run_dir", str(run)])
    model = Model.load(run, "flow")
    expected = model.encode(SENTENCES)
    model.encoder.to("cuda")
    assert np.abs(model.encode(SENTENCES) - expected).max() < 1e-3
