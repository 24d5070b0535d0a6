"""SimCSE: its options, its step, its schedule, and that it learns."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data, trainable_encoder
from helpers.encoders import make_encoder
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.plugins.precision import MixedPrecision
from torch import Tensor

from flowbert.callbacks import STSEvaluation
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.errors import UserError
from flowbert.losses.base import ContrastiveLoss
from flowbert.losses.info_nce import InfoNCE
from flowbert.modules.simcse import SimCSEModule, describe_loss, loss_from
from flowbert.tasks import embed_pairs, evaluate_pairs

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning", "ignore:.*sync_dist=True:UserWarning"
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _trainer(folder: Path, **options: Any) -> Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    quiet |= {"enable_checkpointing": False}
    return Trainer(accelerator="cpu", devices=1, default_root_dir=folder, **{**quiet, **options})


def _dev(module: SimCSEModule, data: ContrastiveDataModule) -> float:
    pairs = embed_pairs(data.tasks[0], "dev", module.sentence_embeddings)
    return evaluate_pairs(pairs, lambda x: x).all


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "mpl"}, r"head: received 'mpl'"),
        ({"mlm_weight": -1.0}, r"mlm_weight: received -1.0; allowed: 0 or more"),
        ({"mask_fraction": 0.0}, r"mask_fraction: received 0.0"),
        ({"dropout": 1.0}, r"dropout: received 1.0; allowed: 0 to below 1"),
        ({"chunk_size": 0}, r"chunk_size: received 0; allowed: 1 or more"),
        ({"learning_rate": 0.0}, r"learning_rate: received 0.0; allowed: above 0"),
        ({"weight_decay": -0.1}, r"weight_decay: received -0.1"),
        ({"schedule": "liner"}, r"schedule: received 'liner'.*did you mean 'linear'"),
        ({"warmup": 1.0}, r"warmup: received 1.0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SimCSEModule(**options)


def test_hyperparameters_are_plain() -> None:
    hparams = SimCSEModule(loss=InfoNCE(0.1)).hparams
    plain = (str, int, float, bool, type(None))
    settings = hparams["loss"]["init_args"]
    assert settings == {"temperature": 0.1, "hard_negative_weight": 0.0}
    assert all(isinstance(value, plain) for name, value in hparams.items() if name != "loss")


LOSSES = [kind for kind in ContrastiveLoss.__subclasses__() if kind.__module__.startswith("flowbert.losses.")]


@pytest.mark.parametrize("kind", LOSSES)
def test_every_loss_is_plain_in_a_checkpoint_and_pulls_at_all_embeddings(kind: type[ContrastiveLoss]) -> None:
    loss = kind()
    again = loss_from(describe_loss(loss))
    assert type(again) is kind
    columns = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for sentences in (columns[:2], columns):
        value = again(*sentences)
        assert value.shape == ()
        assert torch.equal(value, loss(*sentences))
        (gradient,) = torch.autograd.grad(value, columns)
        assert (gradient[: len(sentences)].abs().sum(-1) > 0).all()


def test_dropout_of_zero_is_refused_where_it_makes_the_positives(tmp_path: Path) -> None:
    encoder = trainable_encoder()
    module, data = (
        SimCSEModule(encoder, dropout=0.0),
        make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", max_sentences=64, batch_size=8),
    )
    trainer = _trainer(tmp_path, max_steps=1, limit_val_batches=0)
    with pytest.raises(UserError, match=r"dropout is 0, so both passes .* collapses; allowed: dropout 0.1, or"):
        trainer.fit(module, datamodule=data)
    cropped = make_data(
        ContrastiveDataModule, encoder, corpus="builtin-sample", positive="crop", max_sentences=64, batch_size=8
    )
    module = SimCSEModule(encoder, dropout=0.0)
    _trainer(tmp_path, max_steps=1, limit_val_batches=0).fit(module, datamodule=cropped)


def _loss(module: SimCSEModule, batch: dict[str, Any]) -> Tensor:
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    return module.training_step(batch, 0)


@pytest.mark.parametrize("positive", ["crop", "entailment"])
def test_step_is_the_loss_of_the_sides_with_head_and_weight(positive: str) -> None:
    encoder = trainable_encoder(pooling="cls")
    module = SimCSEModule(encoder, dropout=0.0, loss=InfoNCE(hard_negative_weight=1.5))
    data = make_data(ContrastiveDataModule, encoder, corpus="nli", positive=positive, batch_size=8, max_sentences=64)
    assert module.head is not None
    batch = data.batch(0, range(8))
    sides = [module.head(encoder(encoder.tokenize(side))) for side in data.texts(0, range(8))]
    assert len(sides) == (3 if positive == "entailment" else 2)
    expected = InfoNCE(0.05, 1.5)(*sides)
    torch.testing.assert_close(_loss(module, batch), expected, atol=1e-5, rtol=1e-5)


def test_two_passes_of_a_sentence_differ_by_dropout_alone() -> None:
    encoder = trainable_encoder()
    module, data = (
        SimCSEModule(encoder, head="none"),
        make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", max_sentences=64, batch_size=8),
    )
    first, second = module.embed_columns(data.batch(0, range(8)))
    assert not torch.allclose(first, second, atol=1e-2)
    module.eval()
    first, second = module.embed_columns(data.batch(0, range(8)))
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_chunked_step_has_the_gradients_of_the_plain_one() -> None:
    gradients = []
    for chunk_size in (None, 5):
        encoder = trainable_encoder(pooling="cls")
        module = SimCSEModule(encoder, dropout=0.0, chunk_size=chunk_size)
        data = make_data(
            ContrastiveDataModule, encoder, corpus="nli", positive="entailment", batch_size=12, max_sentences=64
        )
        _loss(module, data.batch(0, range(12))).backward()  # type: ignore[no-untyped-call]
        gradients.append({name: p.grad for name, p in module.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-4)


def test_head_is_left_out_or_kept_at_test_time() -> None:
    embeddings = {}
    for head in ("none", "mlp_train_only", "mlp"):
        encoder = trainable_encoder(pooling="cls")
        module = SimCSEModule(encoder, head=head)
        embeddings[head] = module.sentence_embeddings(["a dog runs", "the cat"])
        raw = torch.from_numpy(encoder.encode(["a dog runs", "the cat"]))
        expected = torch.tanh(module.head.dense(raw)) if head == "mlp" and module.head is not None else raw
        torch.testing.assert_close(embeddings[head], expected)
    assert torch.equal(embeddings["none"], embeddings["mlp_train_only"])


def test_mlm_loss_trains_the_backbone_and_its_masks_repeat() -> None:
    losses = []
    for seed in (0, 0, 1):
        encoder = trainable_encoder()
        module = SimCSEModule(encoder, dropout=0.0, mlm_weight=0.1, seed=seed)
        data = make_data(
            ContrastiveDataModule, encoder, corpus="nli", positive="entailment", batch_size=8, max_sentences=64
        )
        module.trainer = _trainer(Path("."), max_steps=1)
        loss = module._mlm_loss(data.batch(0, range(8)), 0)
        losses.append(loss.item())
        assert 2 < loss.item() < 12  # a new head knows nothing yet: log(2000) is 7.6
        loss.backward()  # type: ignore[no-untyped-call]
        backbone: Any = encoder.backbone
        assert backbone.encoder.layer[0].output.dense.weight.grad.abs().sum() > 0
        tied = module.predictor.get_output_embeddings().weight
        assert tied is backbone.embeddings.word_embeddings.weight
    assert losses[0] == losses[1] != losses[2]


class _Rates(Callback):
    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])


def test_learning_rates_are_those_of_a_linear_decay(tmp_path: Path) -> None:
    encoder = trainable_encoder()
    module, data = (
        SimCSEModule(encoder, learning_rate=3e-5),
        make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", max_sentences=80, batch_size=8),
    )
    rates = _Rates()
    trainer = _trainer(tmp_path, max_epochs=2, limit_train_batches=4, limit_val_batches=0, callbacks=[rates])
    trainer.fit(module, datamodule=data)
    assert rates.rates == pytest.approx([3e-5 * (8 - step) / 8 for step in range(8)])
    groups = trainer.optimizers[0].param_groups
    assert [group["weight_decay"] for group in groups] == [0.0, 0.0]


class _Dtypes(Callback):
    def __init__(self) -> None:
        self.inside: set[torch.dtype] = set()
        self.losses: list[Tensor] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module: Any = pl_module
        layer = module.encoder.backbone.encoder.layer[0].intermediate.dense
        layer.register_forward_hook(lambda _m, _i, output: self.inside.add(output.dtype))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        self.losses.append(outputs["loss"])


# Lightning takes bfloat16 where float16 is asked for on a CPU, but the plugin itself, scaler included, works there.
_PRECISIONS: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"precision": "32-true"},
    torch.bfloat16: {"precision": "bf16-mixed"},
    torch.float16: {"plugins": [MixedPrecision("16-mixed", "cpu")]},
}


def test_mixed_precision_computes_in_half_and_its_loss_in_float32(tmp_path: Path) -> None:
    losses = []
    for dtype, options in _PRECISIONS.items():
        encoder = trainable_encoder()
        module = SimCSEModule(encoder, dropout=0.0)
        data = make_data(
            ContrastiveDataModule, encoder, corpus="builtin-sample", positive="crop", max_sentences=64, batch_size=16
        )
        seen = _Dtypes()
        trainer = _trainer(
            tmp_path, max_steps=2, limit_val_batches=1, callbacks=[seen], gradient_clip_val=1.0, **options
        )
        trainer.fit(module, datamodule=data)
        assert seen.inside == {dtype}
        assert {loss.dtype for loss in seen.losses} == {torch.float32}
        assert {p.dtype for p in module.parameters()} == {torch.float32}
        losses.append(float(seen.losses[0]))
    assert losses == pytest.approx([losses[0]] * 3, rel=0.05)


@pytest.mark.alone
def test_training_improves_sts_and_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = trainable_encoder(pooling="cls")
    module = SimCSEModule(encoder, learning_rate=3e-4)
    sizes = {"max_sentences": 1920, "batch_size": 64}
    data = make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", tasks="SAMPLE", **sizes)
    before = _dev(module, data)
    monitor = "simcse/SAMPLE/dev/spearman_all"
    best = ModelCheckpoint(tmp_path, monitor=monitor, mode="max", save_weights_only=True)
    trainer = _trainer(
        tmp_path,
        max_epochs=1,
        val_check_interval=15,
        gradient_clip_val=1.0,
        enable_checkpointing=True,
        callbacks=[STSEvaluation(), best],
    )
    trainer.fit(module, datamodule=data)
    assert _dev(module, data) > before + 0.03
    assert best.best_model_score is not None
    state = torch.load(best.best_model_path, weights_only=True)
    module.load_state_dict(state["state_dict"])
    assert _dev(module, data) == pytest.approx(float(best.best_model_score), abs=1e-6)


def test_other_backbones_train_without_unused_parameters(tmp_path: Path) -> None:
    encoder = trainable_encoder(str(make_encoder(tmp_path, "distilbert")))
    module = SimCSEModule(encoder)
    data = make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", max_sentences=64)
    _loss(module, data.batch(0, range(8))).backward()  # type: ignore[no-untyped-call]
    assert [name for name, p in module.named_parameters() if p.grad is None] == []
