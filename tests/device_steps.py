"""A device that is not the CPU, simulated: devices do not mix, and numbers are equal."""

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Callback
from pytorch_lightning.plugins import HalfPrecision, MixedPrecision
from torch import Tensor
from torch.utils._pytree import tree_leaves

import fits
from encoders.tiny import SENTENCES, tiny_encoder
from fits import make_module, make_rows
from flowbert.encoders.encoder import encode_counted
from flowbert.encoders.pooling import POOLINGS
from flowbert.extras.views import ViewsEncoder
from flowbert.maps import MAPS, make_map
from flowbert.methods import SimCSEModule
from flowbert.methods.examples import Examples
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.text import TextDataModule
from flowbert.metrics import Alignment, MeanCosine, STSSpearman, Uniformity
from flowbert.model import Model
from flowbert.training import RowsDataModule
from flowbert.training.trainer import quiet_lightning
from helpers import with_slow
from simulated_device import NAME, numbers_of, simulated, trainer_options

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*start at random", "ignore:.*swap", "ignore:.*has no prediction layers"
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def device(monkeypatch):
    with simulated(monkeypatch) as device:
        yield device


PRECISIONS = {
    "32-true": lambda _device: [],
    "bf16-mixed": lambda device: [MixedPrecision("bf16-mixed", device)],
    "bf16-true": lambda _device: [HalfPrecision("bf16-true")],
}


def fit(folder, module, data, *callbacks, **options):
    """What two steps and their validation log; a prediction follows."""
    options |= {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 1}
    options |= {"gradient_clip_val": 1.0}
    trainer = fits.fit(folder, *callbacks, module=module, data=data, **options)
    logged = {name: float(x) for name, x in trainer.callback_metrics.items()}
    with quiet_lightning():
        trainer.predict(module, datamodule=data)
    assert logged
    return logged


def make_encoder(pooling="mean"):
    sizes = {"num_hidden_layers": 1}
    return tiny_encoder(sizes=sizes, pooling=pooling, frozen=False)


def make(method):
    """Module and data of a method."""
    if method == "flow":
        rows = RowsDataModule(make_rows(60), batch_size=8, held_out=0.2)
        return make_module(), rows
    columns: tuple[tuple[str, ...], ...] = (tuple(SENTENCES),) * 2
    targets: Any = None
    module: Any
    if method.startswith("simcse"):
        _, _, head = method.rpartition(", ")
        heads = {} if head == method else {"head": head}
        module = SimCSEModule(make_encoder(), dropout=0.0, **heads)
        module.check_examples = lambda _examples: None  # positives without dropout
    elif method == "sbert":
        module, targets = (
            SBERTModule(make_encoder("learned_weights"), dropout=0.0),
            np.arange(5) % 3,
        )
    else:
        module, columns = MLMModule(make_encoder(), dropout=0.0), columns[:1]
    examples = Examples("x", columns, targets)
    return module, TextDataModule(module.encoder, examples, batch_size=2)


METHODS = (
    "flow",
    "simcse",
    "simcse, whitening:shrinkage=0.3",
    "sbert",
    "mlm",
)


DEFAULT = [("flow", "bf16-true"), (METHODS[2], "bf16-mixed"), ("mlm", "bf16-mixed")]


STEPS = [DEFAULT[0], *product(METHODS, ("32-true", "bf16-mixed"))]
low_or_not = pytest.mark.parametrize("low", with_slow([True, False], [True]))


@pytest.mark.usefixtures("device")
def test_the_device_tells_two_devices():
    x = torch.arange(3.0, device=NAME)
    with pytest.raises(RuntimeError, match=r"found .*two .*devices"):
        x + torch.ones(3)
    with torch.autocast(NAME, dtype=torch.bfloat16):
        assert (x[None] @ x[:, None]).dtype == torch.bfloat16
    assert x.sum().item() == 3


class Batches(Callback):
    """The tensors of the batches of training steps."""

    def __init__(self):
        self.tensors: list[Tensor] = []

    def on_train_batch_start(self, _t, _m, batch, *_):
        self.tensors += [x for x in tree_leaves(batch) if isinstance(x, Tensor)]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("method", "precision"), with_slow(STEPS, DEFAULT))
def test_steps(method, precision, tmp_path):
    module, data = make(method)
    batches = Batches()
    options = trainer_options() | {"plugins": PRECISIONS[precision](NAME)}
    found = fit(tmp_path, module, data, batches, **options)
    assert {x.device.type for x in batches.tensors} == {NAME}
    # Not rounded to the precision of the Trainer, which is not that of a flow.
    floats = {x.dtype for x in batches.tensors if x.is_floating_point()}
    assert floats == ({torch.float32} if method == "flow" else set())
    expected, data = make(method)
    plugins = PRECISIONS[precision]("cpu")
    logged = fit(tmp_path, expected, data, accelerator="cpu", plugins=plugins)
    # Sums in another order, as the CPU cuts batches by length; bfloat16 has 8 bits.
    tolerance = 0.0 if method == "flow" else 0.02 if "bf16" in precision else 1e-4
    assert found == pytest.approx(logged, rel=tolerance, abs=tolerance)
    if method == "flow":
        for one, two in zip(expected.parameters(), module.parameters(), strict=True):
            assert torch.equal(one, numbers_of(two))


def fitted_on(device, text):
    """A map fitted on a device, its rows and those of its inverse."""
    x = torch.from_numpy(make_rows(200)).to(device)
    made: Any = make_map(text)
    made.set_run_parameters(0, "cpu" if device == NAME else device)
    pairs = x[:40], x[40:80], np.arange(40.0)
    made.fit(x, pairs=pairs if made.supervised else None)
    mapped = made.transform(x)
    return made, mapped, made.inverse_transform(mapped)


SMALL_FLOW = {"flow": "flow:levels=1:depth=1:width=4:steps=2"}


def encoded_on(device):
    """Vectors of each pooling, of one pass on a device."""
    every = tiny_encoder()
    last, layers = [every.num_layers], [*range(every.num_layers + 1)]
    names = [*POOLINGS, "mean:unit=true", "zipf:cls=2"]
    variants = [
        every.read(
            layers=last if name == "cls_pooler" else layers,
            pooling=name,
            count_over=SENTENCES,
        )
        for name in names
    ]
    every.to(device)
    vectors = encode_counted(variants, SENTENCES)
    return dict(zip(names, vectors, strict=True))


@pytest.mark.usefixtures("device")
@low_or_not
def test_maps(low):
    for name in list(MAPS):
        text = SMALL_FLOW.get(name, name)
        expected, *there = fitted_on("cpu", text)
        with torch.autocast(NAME, dtype=torch.bfloat16, enabled=low):
            made, *found = fitted_on(NAME, text)
        for one, other in zip(found, there, strict=True):
            assert one.device.type == NAME
            assert torch.equal(numbers_of(one), other), name
        # A map that was on the device goes on with arrays, and is saved.
        x = torch.from_numpy(make_rows(200))
        assert torch.equal(made.transform(x), there[0]), name
        assert made.get_state().keys() == expected.get_state().keys()


@pytest.mark.usefixtures("device")
@low_or_not
def test_variants(low):
    expected = encoded_on("cpu")
    with torch.autocast(NAME, dtype=torch.bfloat16, enabled=low):
        found = encoded_on(NAME)
    for name, vectors in found.items():
        # The batches of a CPU are shorter: sums in another order.
        assert np.abs(vectors - expected[name]).max() < 1e-4, name
    views: Any = ViewsEncoder(views=[{}, {"layers": 0}]).to(NAME)
    assert Model(views).encode("a", convert_to_tensor=True).device.type == NAME


@pytest.mark.usefixtures("device")
@low_or_not
def test_metrics(low):
    x, y = torch.from_numpy(make_rows(50)).chunk(2)
    metrics: list[tuple[Any, tuple[Tensor, ...]]] = [
        (Alignment, (x, y)),
        (partial(Uniformity, dim=4, limit=20), (x,)),
        (partial(MeanCosine, dim=4), (x,)),
        (STSSpearman, (x[:, 0], torch.arange(25.0))),
    ]
    for make_metric, values in metrics:
        expected, metric = make_metric(), make_metric().to(NAME)
        expected.update(*values)
        with torch.autocast(NAME, dtype=torch.bfloat16, enabled=low):
            metric.update(*(each.to(NAME) for each in values))
            found = metric.compute()
        assert found.device.type == NAME
        assert math.isclose(float(found), float(expected.compute()), rel_tol=1e-12)
