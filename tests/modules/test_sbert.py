"""Sentence-BERT: its options, its step, its schedule, and that it learns."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data, trainable_encoder
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.errors import UserError
from flowbert.losses.siamese import cosine_loss, softmax_loss, triplet_loss
from flowbert.modules.sbert import OBJECTIVES, SBERTModule
from flowbert.tasks import embed_pairs, evaluate_pairs

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _trainer(folder: Path, **options: Any) -> Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    return Trainer(
        accelerator="cpu", devices=1, default_root_dir=folder, enable_checkpointing=False, **{**quiet, **options}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "sofmax"}, r"objective: received 'sofmax'; allowed: softmax, cosine, triplet"),
        ({"margin": 0.0}, r"margin: received 0.0; allowed: above 0"),
        ({"chunk_size": -1}, r"chunk_size: received -1"),
        ({"learning_rate": -1.0}, r"learning_rate: received -1.0"),
        ({"warmup": -0.1}, r"warmup: received -0.1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SBERTModule(**options)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_step_is_the_objective_of_the_sides(objective: str, pooling: str) -> None:
    encoder = trainable_encoder(pooling=pooling)
    module = SBERTModule(encoder, objective, dropout=0.0)
    data = make_data(SiameseDataModule, encoder, source=OBJECTIVES[objective], max_sentences=64)
    batch = data.batch(0, range(8))
    sides: list[Tensor] = [encoder(encoder.tokenize(side)) for side in data.texts(0, range(8))]
    if objective == "triplet":
        expected = triplet_loss(sides[0], sides[1], sides[2])
    elif objective == "cosine":
        expected = cosine_loss(sides[0], sides[1], batch["targets"])
    else:
        assert module.classifier is not None
        expected = softmax_loss(sides[0], sides[1], batch["targets"], module.classifier.weight, module.classifier.bias)
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    torch.testing.assert_close(module.training_step(batch, 0), expected, atol=1e-5, rtol=1e-5)


def test_data_and_objective_must_belong_together(tmp_path: Path) -> None:
    encoder = trainable_encoder()
    module, data = SBERTModule(encoder, "cosine"), make_data(SiameseDataModule, encoder, source="nli", max_sentences=64)
    with pytest.raises(UserError, match=r"source: received 'nli' with objective 'cosine'; allowed .* sts"):
        _trainer(tmp_path, max_steps=1).fit(module, datamodule=data)


class _Rates(Callback):
    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])


def test_learning_rates_rise_over_a_tenth_and_fall_to_zero(tmp_path: Path) -> None:
    encoder = trainable_encoder()
    module, data = SBERTModule(encoder), make_data(SiameseDataModule, encoder, max_sentences=20 * 16)
    rates = _Rates()
    _trainer(tmp_path, max_epochs=1, limit_val_batches=0, callbacks=[rates]).fit(module, datamodule=data)
    expected = [0.0, 1e-5, *(2e-5 * (18 - step) / 18 for step in range(18))]
    assert rates.rates == pytest.approx(expected)


@pytest.mark.alone
@pytest.mark.parametrize(("objective", "pairs"), [("softmax", 3200), ("cosine", 1600)])
def test_training_improves_sts(objective: str, pairs: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = trainable_encoder()
    module = SBERTModule(encoder, objective, learning_rate=1e-3)
    data = make_data(SiameseDataModule, encoder, source=OBJECTIVES[objective], max_sentences=pairs, batch_size=32)

    def dev() -> float:
        return evaluate_pairs(embed_pairs(data.tasks[0], "dev", module.sentence_embeddings), lambda x: x).all

    before = dev()
    trainer = _trainer(tmp_path, max_epochs=1, limit_val_batches=2, gradient_clip_val=1.0)
    trainer.fit(module, datamodule=data)
    assert dev() > before + 0.05
    assert torch.isfinite(trainer.callback_metrics["val/loss"])


def test_triplets_are_learned(tmp_path: Path) -> None:
    encoder = trainable_encoder()
    module = SBERTModule(encoder, "triplet", learning_rate=5e-4)
    data = make_data(SiameseDataModule, encoder, source="nli_triples", max_sentences=640, batch_size=32, held_out=0.1)
    trainer = _trainer(tmp_path, max_epochs=1, gradient_clip_val=1.0)
    (before,) = trainer.validate(module, datamodule=data, verbose=False)
    trainer.fit(module, datamodule=data)
    assert trainer.callback_metrics["val/loss"] < 0.8 * before["val/loss"]
