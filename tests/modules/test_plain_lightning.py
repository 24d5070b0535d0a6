"""Every method with a stock Trainer, in plain Python: load_from_checkpoint, test, and a fit that goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data
from helpers.encoders import make_encoder
from pytorch_lightning import Trainer

from flowbert.callbacks import STSEvaluation
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.mlm import MLMDataModule
from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.losses.info_nce import InfoNCE
from flowbert.modules import EmbeddingModule, FlowModule, MLMModule, SBERTModule, SimCSEModule

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*logging interval:UserWarning",
    "ignore:The dirpath has changed:UserWarning",
)
SMALL: dict[str, Any] = {"max_sentences": 48, "batch_size": 8, "held_out": 0.0}
Pair = tuple[EmbeddingModule, CorpusDataModule]
Encoder = SentenceEncoder | None


def _flow(encoder: Encoder) -> Pair:
    options = {**SMALL, "max_sentences": 192, "batch_size": 32, "start_size": 48, "store": "memory"}
    return FlowModule(encoder=encoder, depth=1), make_data(EmbeddingDataModule, corpus="builtin-sample", **options)


def _simcse(encoder: Encoder) -> Pair:
    module = SimCSEModule(encoder, InfoNCE(0.1), mlm_weight=0.1, learning_rate=1e-3)
    return module, make_data(ContrastiveDataModule, corpus="builtin-sample", **SMALL)


def _sbert(encoder: Encoder) -> Pair:
    return SBERTModule(encoder, learning_rate=1e-3), make_data(SiameseDataModule, **SMALL)


def _mlm(encoder: Encoder) -> Pair:
    module = MLMModule(encoder, learning_rate=1e-3, whole_words=True)
    return module, make_data(MLMDataModule, corpus="builtin-sample", **SMALL)


def _scratch(_: Encoder) -> Pair:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 300}
    module = MLMModule(scratch=True, learning_rate=1e-3, **sizes)  # makes its own encoder
    return module, make_data(MLMDataModule, corpus="builtin-sample", **SMALL)


METHODS: dict[str, Callable[[Encoder], Pair]] = {
    "flow": _flow,
    "simcse": _simcse,
    "sbert": _sbert,
    "mlm": _mlm,
    "mlm from scratch": _scratch,
}


def _trainer(folder: Path, epochs: int = 1, **options: Any) -> Trainer:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0, "logger": False}
    return Trainer(accelerator="cpu", devices=1, default_root_dir=folder, max_epochs=epochs, **{**quiet, **options})


def _made(method: str) -> Pair:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", frozen=method == "flow")
    return METHODS[method](encoder)


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_is_all_that_a_stock_trainer_needs(method: str, tmp_path: Path) -> None:
    module, data = _made(method)
    evaluation = STSEvaluation()
    trainer = _trainer(tmp_path, callbacks=[evaluation], limit_val_batches=0)
    trainer.fit(module, datamodule=data)  # the data module takes the encoder of the module
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    logged = trainer.test(module, datamodule=data, verbose=False)

    loaded = type(module).load_from_checkpoint(checkpoint, weights_only=True)
    again = _trainer(tmp_path, callbacks=[STSEvaluation()])
    assert again.test(loaded, datamodule=METHODS[method](None)[1], verbose=False) == logged
    sentences = ["a dog runs", "the cat sleeps in the park"]
    if module.frozen_encoder:
        assert torch.equal(loaded.encoder.backbone(**_features(loaded, sentences))[0], _states(module, sentences))
    else:
        assert torch.equal(loaded.sentence_embeddings(sentences), module.sentence_embeddings(sentences))
    assert loaded.hparams == module.hparams


def _features(module: EmbeddingModule, sentences: list[str]) -> dict[str, torch.Tensor]:
    return module.encoder.tokenize(sentences)


def _states(module: EmbeddingModule, sentences: list[str]) -> torch.Tensor:
    states: torch.Tensor = module.encoder.backbone(**_features(module, sentences))[0]
    return states


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loaded", [False, True])
def test_a_fit_goes_on_as_if_it_had_never_stopped(method: str, loaded: bool, tmp_path: Path) -> None:
    whole, data = _made(method)
    _trainer(tmp_path / "whole", 2).fit(whole, datamodule=data)
    # Six batches an epoch, a checkpoint after the fourth.
    half, data = _made(method)
    for name, value in half.hparams.items():
        assert whole.hparams[name] == value
    stop = _trainer(tmp_path / "half", 2, callbacks=[_StopAfter(4, tmp_path / "half.ckpt")])
    stop.fit(half, datamodule=data)
    module, data = METHODS[method](None) if loaded else _made(method)
    if loaded:
        module = type(module).load_from_checkpoint(tmp_path / "half.ckpt", weights_only=True)
    trainer = _trainer(tmp_path / "rest", 2)
    trainer.fit(module, datamodule=data, ckpt_path=tmp_path / "half.ckpt", weights_only=True)
    assert trainer.global_step == 12
    state = module.state_dict()
    for name, value in whole.state_dict().items():
        assert torch.equal(state[name], value), name


class _StopAfter(STSEvaluation):
    """Write a checkpoint after some steps and train no further."""

    def __init__(self, steps: int, path: Path) -> None:
        super().__init__()
        self._steps, self._path = steps, path

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if trainer.global_step == self._steps:
            trainer.save_checkpoint(self._path)
            trainer.should_stop = True


def test_another_encoder_in_the_same_place_is_refused(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "encoder")
    module, data = METHODS["flow"](SentenceEncoder.from_pretrained(str(folder)))
    _trainer(tmp_path, limit_val_batches=0).fit(module, datamodule=data)
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    shutil.rmtree(folder)
    make_encoder(folder, seed=1)
    loaded = FlowModule.load_from_checkpoint(checkpoint, weights_only=True)
    with pytest.raises(UserError, match=r"belongs to another encoder"):
        _ = loaded.encoder
    shutil.rmtree(folder)
    with pytest.raises(UserError, match=r"no such folder"):
        _ = loaded.encoder
    assert loaded.embed(torch.ones(1, 16)).shape == (1, 16)  # the flow itself needs none


def test_data_without_any_encoder_say_so(tmp_path: Path) -> None:
    module, data = METHODS["flow"](None)
    with pytest.raises((UserError, RuntimeError), match=r"no encoder"):
        _trainer(tmp_path).fit(module, datamodule=data)
