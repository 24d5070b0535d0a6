"""The flow's LightningModule: what it learns, logs, refuses, and on several processes."""

import math
from contextlib import redirect_stderr
from copy import deepcopy
from io import StringIO
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import (
    BatchSizeFinder,
    GradientAccumulationScheduler,
    LearningRateFinder,
    WeightAveraging,
)
from pytorch_lightning.cli import LightningCLI
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from fits import DIM, differences, fit, make_data, make_module, make_rows
from flowbert.flows import bits_per_dim
from flowbert.maps import as_map, make_map
from flowbert.methods import FlowModule
from flowbert.model import Model
from flowbert.training import RowsDataModule
from flowbert.training.checkpoints import read_checkpoint
from flowbert.training.trainer import quiet_lightning
from helpers import refused, warned

ROWS = make_rows(600)
close = torch.testing.assert_close


def fitted(folder, rows=ROWS, *, max_epochs=1, precision="32-true", **options):
    module, data = make_module(**options), RowsDataModule(rows, held_out=0.1)
    trainer = {"max_epochs": max_epochs, "precision": precision}
    return module, fit(folder, module=module, data=data, **trainer)


def test_fit_standardizes_and_lowers_the_nll(tmp_path):
    x = torch.from_numpy(ROWS)
    start, _ = fitted(tmp_path, learning_rate=1e-9)
    module, _ = fitted(tmp_path, max_epochs=8, coupling="affine", learning_rate=0.03)
    assert module.flow.log_prob(x).mean() > start.flow.log_prob(x).mean() + 0.5
    latents = module.flow.latents(x)
    # Of 600 normal numbers both are known to 0.04; noise and an unfinished fit add some.
    assert latents.mean(0).abs().max() < 0.3
    assert (latents.std(0) - 1).abs().max() < 0.3


def test_logged_figures_are_the_likelihoods(tmp_path):
    module, trainer = fitted(tmp_path, noise=0.0)
    data = trainer.datamodule
    logged = [dict(trainer.callback_metrics)]
    assert math.isfinite(logged[0]["step/nll"])
    trainer.test(module, data, verbose=False)
    logged.append(dict(trainer.callback_metrics))
    parts = {"train": data.likelihood_rows(), "held_out": data.held_out_rows}
    for split, part in parts.items():
        x = torch.from_numpy(part[np.arange(len(part))])
        nll = -module.flow.log_prob(x).mean().detach()
        for figures in logged:
            # Sums of 500 float32 numbers in another order.
            close(figures[f"{split}/nll"], nll, rtol=1e-5, atol=0)
            bits = figures[f"{split}/bits_per_dim"]
            close(bits, bits_per_dim(nll, DIM), rtol=1e-5, atol=0)
    predicted: Any = trainer.predict(module, data)
    close(torch.cat(predicted), module.flow.latents(torch.from_numpy(ROWS)))


def test_noise_is_a_share_of_the_variance_and_spreads_dead_dimensions(tmp_path):
    x = np.random.default_rng(0).normal(size=(512, 8)).astype(np.float32)
    x[:, 3] *= 1e-7
    module, trainer = fitted(tmp_path, x, dim=8, noise=0.25, learning_rate=1e-9)
    data = trainer.datamodule
    expected = math.sqrt(0.25 * data.init_sample().var(0).mean())
    assert module.noise_std.item() == pytest.approx(expected, rel=1e-5)
    noise = torch.randn(x.shape)
    latents = module.flow.latents(torch.from_numpy(x) + module.noise_std * noise)
    assert latents.std(dim=0).max() < 2  # 1e6, if its own deviation were the start


def test_whitening_is_of_all_rows_with_their_noise(tmp_path):
    for rows, noise in ((ROWS, 0.0), (ROWS, 0.5), (ROWS[:3], 0.5)):
        options = {"init": "whitening", "learning_rate": 1e-9}
        data = RowsDataModule(rows, held_out=0.0, init_size=2)
        module = make_module(noise=noise, **options)
        fit(tmp_path, module=module, data=data)
        x = torch.from_numpy(rows).double()
        covariance = x.T.cov() + module.noise_std.double() ** 2 * torch.eye(DIM)
        weight = module.flow.get_buffer("front.whitening.weight").double()
        # Shrinkage moves the smallest variance by 1e-4 of the mean one.
        whitened = weight.T @ covariance @ weight
        close(whitened, torch.eye(DIM).double(), rtol=0, atol=0.02)
        assert bool(module.flow.initialized)


@pytest.mark.filterwarnings("ignore:.*fp16 is not supported", "ignore:.*float16")
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "16-true"])
def test_precision_of_the_trainer_is_not_that_of_the_flow(precision, tmp_path):
    _, expected = fitted(tmp_path)
    _, trainer = fitted(tmp_path, precision=precision)
    assert differences(expected, trainer) == []
    assert trainer.callback_metrics == expected.callback_metrics


@pytest.mark.parametrize(("noise", "enough"), [(0.0, DIM + 1), (0.05, 2)])
def test_too_few_distinct_rows_are_told(noise, enough, tmp_path):
    rows = make_rows(enough)
    module = make_module(noise=noise)
    fit(tmp_path, module=module, data=make_data(rows=np.repeat(rows, 3, axis=0)))
    assert module.invalid_reason is None
    module = make_module(noise=noise)
    few = make_data(rows=np.repeat(rows[1:], 3, axis=0))
    with warned(f"N={enough - 1} .* in D={DIM} "):
        trainer = fit(tmp_path, module=module, data=few)
    file = tmp_path / "undefined.ckpt"
    trainer.save_checkpoint(file)
    loaded = FlowModule.load_from_checkpoint(file, weights_only=True)
    assert loaded.invalid_reason == module.invalid_reason is not None
    assert loaded.hparams == module.hparams
    assert torch.equal(loaded.noise_std, module.noise_std)


class Diverge(Callback):
    def on_train_batch_start(self, trainer, module, *_):
        if trainer.global_step == 3:
            name = "levels.0.step_0.actnorm.bias"
            module.flow.get_parameter(name).data.fill_(math.nan)


def test_divergence_names_the_step(tmp_path, monkeypatch):
    refused(r"received 0\.01, .* loss is nan at step 3", fit, tmp_path, Diverge())
    module = make_module()
    monkeypatch.setattr(FlowModule, "device", torch.device("cuda"))
    infinite = torch.tensor(math.inf)
    monkeypatch.setattr(FlowModule, "global_step", 49)
    module.check_loss(infinite)  # losses on an accelerator are read now and then
    monkeypatch.setattr(FlowModule, "global_step", 50)
    refused(r"received 0\.01, .* inf at step 50", module.check_loss, infinite)


def test_numbers_of_numpy_are_numbers_in_checkpoints(tmp_path):
    """What opens a checkpoint reads tensors and plain values."""
    one: Any = np.int64(1)
    module = make_module(width=4 * one, seed=one, learning_rate=np.float64(1e-3))
    data = RowsDataModule(ROWS, batch_size=64 * one, held_out=np.float64(0.1))
    trainer = fit(tmp_path, module=module, data=data, max_epochs=1)
    trainer.save_checkpoint(tmp_path / "flow.ckpt")
    options = read_checkpoint(tmp_path / "flow.ckpt")["hyper_parameters"]
    assert options.items() >= {"width": 4, "seed": 1, "learning_rate": 1e-3}.items()


@pytest.mark.parametrize("wrap", [TensorDataset, lambda x: x])
def test_a_stock_trainer_with_stock_loaders(wrap, tmp_path):
    """Whose batches are lists of one tensor, or tensors."""
    x = torch.from_numpy(ROWS)
    loader: Any = DataLoader(wrap(x), 64)
    trainer = fit(tmp_path, loader=loader)
    module: Any = trainer.lightning_module
    with quiet_lightning():
        trainer.test(module, [loader, loader], verbose=False)
        logged = {name for name in trainer.callback_metrics if name.endswith("nll")}
        assert logged == {"test/nll", "test_1/nll"}
        trainer.validate(module, loader, verbose=False)
        nll = -module.flow.log_prob(x).mean()
        # Means of batches in float32 against one mean.
        close(trainer.callback_metrics["val/nll"], nll, rtol=1e-5, atol=0)
        predicted: Any = trainer.predict(module, loader)
    close(torch.cat(predicted), module.flow.latents(x))
    assert module.invalid_reason is None
    start = x.var(0).mean() * module.hparams["noise"]
    close(module.noise_std, start.sqrt(), rtol=1e-5, atol=0)


def test_loaders_after_a_data_module(tmp_path):
    """The Trainer keeps the data module of an earlier call: it is not read again."""
    trainer = fit(tmp_path)
    x = torch.from_numpy(10 * ROWS)
    loader: Any = DataLoader(x, 64)  # type: ignore[arg-type]
    module = make_module()
    trainer.fit_loop.max_epochs = 3
    with quiet_lightning():
        trainer.validate(trainer.lightning_module, [loader] * 3, verbose=False)
        logged = {name for name in trainer.callback_metrics if name.endswith("nll")}
        assert logged == {"val/nll", "val_1/nll", "val_2/nll"}
        trainer.fit(module, loader)
    start = x.var(0).mean() * module.hparams["noise"]
    close(module.noise_std, start.sqrt(), rtol=1e-5, atol=0)
    assert module.fit_parameters["batch_size"] == 64


def persistent():
    options: dict[str, Any] = {"num_workers": 1, "persistent_workers": True}
    rows: Any = torch.from_numpy(ROWS)
    return DataLoader(rows, 60, multiprocessing_context="fork", **options)


def stream():
    return (rows for rows in torch.from_numpy(ROWS).split(60))


@pytest.mark.parametrize("loader", [persistent, stream])
def test_the_initialization_takes_no_batch_of_the_training(loader, tmp_path):
    trainer = fit(tmp_path, loader=loader(), max_epochs=1)
    assert trainer.global_step == 10
    assert bool(trainer.lightning_module.flow.initialized)


@pytest.mark.parametrize("mixing", ["lu", "random"])
def test_a_moving_average_of_the_weights_is_a_flow(mixing, tmp_path):
    """Of the permutations, torch would round the averages: 0.9 * 3 + 0.1 * 3 to 2."""
    module = make_module(dim=8, mixing=mixing)
    start = deepcopy(module.flow.state_dict())
    average = WeightAveraging(multi_avg_fn=get_ema_multi_avg_fn(0.9))
    data = make_data(rows=make_rows(dim=8))
    fit(tmp_path, average, module=module, data=data)
    for name, value in module.flow.state_dict().items():
        if not value.is_floating_point():
            assert torch.equal(value, start[name]), name
    x = torch.from_numpy(make_rows(dim=8))
    # Sums of 8 numbers in float32, through a map with a small condition number.
    close(module.flow.inverse(module.flow(x)[0])[0], x, rtol=1e-3, atol=1e-3)


def test_callbacks_that_find_the_learning_rate_or_the_batch_size(tmp_path):
    """What is trained then is what these settings train from the start."""
    options: dict[str, Any] = {"max_epochs": 6, "log_every_n_steps": 1}
    finder = LearningRateFinder(1e-4, 0.1, num_training_steps=25)
    with redirect_stderr(StringIO()):  # its progress bar
        found = fit(tmp_path, finder, module=make_module(warmup=0.2), **options)
    rate = found.lightning_module.learning_rate
    assert rate != make_module().learning_rate
    module = make_module(warmup=0.2, learning_rate=rate)
    assert differences(found, fit(tmp_path, module=module, **options)) == []
    data = make_data()
    size = BatchSizeFinder(init_val=3, max_trials=2)
    found = fit(tmp_path, size, data=data, **options)
    assert data.batch_size != make_data().batch_size
    expected = fit(tmp_path, data=make_data(batch_size=data.batch_size), **options)
    assert differences(found, expected) == []


def test_a_schedule_over_epochs_that_accumulate_differently(tmp_path):
    accumulation = GradientAccumulationScheduler({0: 2, 1: 1})
    trainer = fit(tmp_path, accumulation, module=make_module(schedule="linear"))
    (optimizer,) = trainer.optimizers
    assert (trainer.global_step, optimizer.param_groups[0]["lr"]) == (3 + 5, 0)


class SmallFlow(FlowModule):
    """With arguments of its own, saved as Lightning's documents have it."""

    def __init__(self, dim: int = DIM, noise: float | None = None, label: str = "a"):
        super().__init__(dim, noise=noise, levels=1)
        self.save_hyperparameters()


def test_a_subclass_saves_its_hyperparameters(tmp_path, monkeypatch):
    """Under LightningCLI, whose hyper-parameters are those of the command line."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", make_rows(100))
    trainer = {"max_epochs": 1, "accelerator": "cpu", "logger": "false"}
    trainer |= {"enable_progress_bar": "false", "enable_model_summary": "false"}
    options = [f"--trainer.{name}={x}" for name, x in trainer.items()]
    options += ["--data.rows=rows.npy", "--model.label=b"]
    monkeypatch.setattr("sys.argv", ["x.py", "fit", *options])
    with quiet_lightning():
        usual: dict[str, Any] = {
            "save_config_callback": None,
            "seed_everything_default": False,
        }
        cli: Any = LightningCLI(SmallFlow, RowsDataModule, **usual)
    file = cli.trainer.checkpoint_callback.best_model_path
    again = SmallFlow.load_from_checkpoint(file, weights_only=True)
    x = torch.from_numpy(make_rows())
    assert torch.equal(again.flow.latents(x), cli.model.flow.latents(x))
    assert again.hparams["label"] == "b"
    text = f"flow:levels=1:steps={cli.trainer.global_step}"
    assert as_map(again).text == make_map(text).text


def test_a_trained_module_is_a_map(tmp_path):
    module, _ = fitted(tmp_path)
    made = Model(None, module)
    # The map computes in float64.
    assert_allclose(
        made.transform(ROWS), module.flow.latents(torch.from_numpy(ROWS)), atol=1e-5
    )
    refused("^map: received a FlowModule that was not trained", as_map, make_module())
