"""The baseline, the log of steps, and when and how checkpoints are written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pytorch_lightning import Callback
from pytorch_lightning.loggers import CSVLogger
from torch.testing import assert_close

from fits import fit, make_data, make_module, make_rows
from flowbert.maps import Whitening, make_map
from flowbert.training import (
    AtomicCheckpointIO,
    StepLog,
    TaskEvaluation,
    WhiteningBaseline,
    checkpoint_callbacks,
)
from flowbert.training.trainer import quiet_lightning
from helpers import refused, scored

X = torch.from_numpy(make_rows(60))


def embed(sentences):
    return make_rows(len(sentences))


def test_baseline_is_fitted_once_and_kept_in_checkpoints(tmp_path):
    baseline, loaded = (WhiteningBaseline(Whitening(2, 0.1)) for _ in range(2))
    assert baseline.state_dict() == {}
    data = make_data(rows=X, held_out=0.2)
    trainer = fit(tmp_path, baseline, data=data)
    rows = torch.from_numpy(data.rows[np.arange(len(data.rows))])
    assert len(rows) == 48
    expected = Whitening(2, 0.1).fit(rows).transform(X)
    assert_close(baseline.map.transform(X), expected)
    trainer.save_checkpoint(tmp_path / "fit.ckpt")
    # Neither a resumed fit nor a test of other rows fits it again.
    fit(tmp_path, loaded, data=data, ckpt_path=tmp_path / "fit.ckpt")
    trainer.test(trainer.lightning_module, make_data(), verbose=False)
    for each in (baseline, loaded):
        assert_close(each.map.transform(X), expected)
    assert (baseline.map.name, baseline.map.invalid_reason) == ("whitening", None)


def test_a_baseline_learns_from_pairs_and_may_be_a_chain(tmp_path):
    pairs = X[:30], X[30:], np.linspace(0, 5, 30)
    text = "whitening-3+learned-removal-2"
    baseline = WhiteningBaseline(make_map(text), pairs)
    fit(tmp_path, baseline, data=make_data(rows=X))
    expected = make_map(text).fit(X, pairs=pairs).transform(X)
    assert_close(baseline.map.transform(X), expected)
    loaded = WhiteningBaseline(make_map(text))
    loaded.load_state_dict(baseline.state_dict())
    assert_close(loaded.map.transform(X), expected)
    assert baseline.name == text
    refused(
        "labelled pairs",
        fit,
        tmp_path,
        WhiteningBaseline(make_map("learned-removal-2")),
    )


def test_step_log_has_the_norm_before_clipping_at_logged_steps(tmp_path):
    options = {"log_every_n_steps": 2, "gradient_clip_val": 1e-3}
    logger = CSVLogger(tmp_path, name="", version="")
    fit(tmp_path, StepLog(), data=make_data(batch_size=2), logger=logger, **options)
    rows = pd.read_csv(tmp_path / "metrics.csv").dropna(subset="step/nll")
    assert rows["step"].tolist() == list(range(1, 22, 2))
    assert (rows["step/gradient_norm"] > 0.01).all()
    assert rows["step/learning_rate"].is_monotonic_decreasing


class Watch(AtomicCheckpointIO):
    """Steps of the checkpoints of a name."""

    def __init__(self):
        self.steps = {}

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.steps.setdefault(Path(path).stem, []).append(checkpoint["global_step"])


class Figure(Callback):
    def on_validation_epoch_end(self, trainer, pl_module):
        pl_module.log("figure", [0.1, 0.3, 0.2][trainer.current_epoch])


WRITTEN = [
    ({}, [5, 10, 15]),
    ({"every_n_steps": 4}, [4, 5, 8, 10, 12, 15]),
    ({"every_n_minutes": 1e-9}, list(range(1, 16))),  # the last of an epoch once
]


@pytest.mark.parametrize(("options", "expected"), WRITTEN)
def test_when_checkpoints_are_written(options, expected, tmp_path):
    watch = Watch()
    callbacks = checkpoint_callbacks(tmp_path, "figure", **options)
    fit(tmp_path, Figure(), *callbacks, plugins=[watch], max_epochs=3)
    assert watch.steps == {"last": expected, "best": [5, 10]}


def test_the_best_figure_is_remembered_in_another_folder(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"

    def part(folder, **options):
        callbacks = checkpoint_callbacks(folder, "figure")
        module = make_module(schedule="constant")
        fit(tmp_path, Figure(), *callbacks, module=module, **options)
        return callbacks[-1]

    part(first, max_epochs=2)
    content = (first / "best.ckpt").read_bytes()
    options = {"ckpt_path": first / "last.ckpt", "max_epochs": 3}
    best = part(second, **options)
    # 0.2 in the third epoch is worse than 0.3 in the second.
    assert Path(best.best_model_path) == first / "best.ckpt"
    assert (first / "best.ckpt").read_bytes() == content
    assert best.best_weights(10) is not None
    refused(r"of step 10, .* ended at step 7", best.best_weights, 7)


def test_a_test_measures_the_test_split(tmp_path):
    splits = {"dev": range(6), "test": range(6, 0, -1)}
    options = {"positive_above": 0.5, "uniformity_limit": 5}
    dev, tested = (scored(splits, split, **options) for split in splits)
    module, data = make_module(), make_data()
    trainer = fit(tmp_path, TaskEvaluation([dev], embed), module=module, data=data)
    with quiet_lightning():
        (logged,) = trainer.test(module, datamodule=data, verbose=False)
    vectors = module.flow.latents(torch.from_numpy(embed(tested.sentences)))
    scores = tested.measure(vectors).scores
    for name in ("spearman_all", "alignment", "uniformity"):
        expected = scores[name.removesuffix("_all"), "all"]
        # Logged in float32.
        assert logged[f"flow/T/test/{name}"] == pytest.approx(expected, rel=1e-6)
    assert not any("/dev/" in name for name in logged)
