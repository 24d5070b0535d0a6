"""Masked language modelling: the masks, the loss, learning, and the saved encoder."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data, trainable_encoder
from pytorch_lightning import Trainer
from torch import Tensor
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
)

from flowbert.callbacks import STSEvaluation
from flowbert.data.sample import sample_corpus
from flowbert.datamodules.mlm import MLMDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.modules.masking import IGNORED, mask_features
from flowbert.modules.mlm import MLMModule
from flowbert.seeding import Stream

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers")  # the text is in memory already

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = sample_corpus()[:400]


def _scratch(**options: Any) -> MLMModule:
    settings: dict[str, Any] = {"scratch": True, "learning_rate": 3e-3, "vocab_size": 400, **SIZES, **options}
    return MLMModule(MLMModule(**settings).make_encoder(TEXT, max_length=32), **settings)


def _continued(path: str = "builtin-sample", **options: Any) -> MLMModule:
    return MLMModule(trainable_encoder(path), **options)


def _data(module: MLMModule, **options: Any) -> MLMDataModule:
    settings: dict[str, Any] = {"corpus": "builtin-sample", "max_sentences": 400, "batch_size": 16, **options}
    return make_data(MLMDataModule, module.encoder, **settings)


def _trainer(max_steps: int, **options: Any) -> Trainer:
    return Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=max_steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )


def _word_embeddings(module: MLMModule) -> Tensor:
    weights: Tensor = module.predictor.get_input_embeddings().weight
    return weights.detach()


class _Tokenizer:
    """Special is the mask token alone, 4 among 1,000."""

    mask_token_id = 4
    all_special_ids = (4,)

    def __len__(self) -> int:
        return 1000


def _mask(
    ids: Tensor, maskable: Tensor, fraction: float = 0.15, seed: int = 0, **options: Any
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = {"input_ids": ids, "attention_mask": maskable}
    masked, labels = mask_features(features, _Tokenizer(), fraction, generator, **options)
    return masked["input_ids"], labels


# -------------------------------------------------------------------- masks


def test_share_of_masked_random_and_kept_tokens() -> None:
    ids = torch.randint(100, 1000, (400, 500), generator=torch.Generator().manual_seed(1))
    inputs, labels = _mask(ids, torch.ones_like(ids, dtype=torch.bool))
    chosen = labels != IGNORED
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.003)
    assert (inputs[chosen] == 4).float().mean().item() == pytest.approx(0.8, abs=0.01)
    kept = (inputs[chosen] == ids[chosen]).float().mean().item()
    assert kept == pytest.approx(0.1 + 0.1 / 1000, abs=0.01)
    torch.testing.assert_close(labels[chosen], ids[chosen])
    torch.testing.assert_close(inputs[~chosen], ids[~chosen])
    replaced = inputs[chosen & (inputs != 4) & (inputs != ids)]
    assert replaced.float().mean().item() == pytest.approx(500, abs=25)


def test_only_maskable_tokens_are_chosen() -> None:
    ids = torch.full((50, 20), 7)
    maskable = torch.zeros_like(ids, dtype=torch.bool)
    maskable[:, 5:10] = True
    inputs, labels = _mask(ids, maskable, fraction=1.0)
    assert torch.equal(labels != IGNORED, maskable)
    assert torch.equal(inputs[~maskable], ids[~maskable])


def test_masks_depend_on_the_generator_alone() -> None:
    ids = torch.full((20, 20), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)
    state = torch.get_rng_state()
    first, again, other = (_mask(ids, maskable, seed=seed)[0] for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_whole_words_are_chosen_as_units() -> None:
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(100, 1000, (300, 200), generator=generator)
    continues = torch.rand(ids.shape, generator=generator) < 0.5
    continues[:, 0] = False
    inputs, labels = _mask(ids, torch.ones_like(continues), continues=continues)
    chosen = labels != IGNORED
    assert torch.equal(chosen[:, 1:][continues[:, 1:]], chosen[:, :-1][continues[:, 1:]])
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert chosen[~continues].float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert (inputs[chosen] == 4).float().mean().item() == pytest.approx(0.8, abs=0.02)


def test_tokens_without_continuations_are_masked_as_single_ones() -> None:
    ids = torch.full((20, 20), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)
    alone, words = _mask(ids, maskable), _mask(ids, maskable, continues=~maskable)
    assert all(torch.equal(a, b) for a, b in zip(alone, words, strict=True))


def test_whole_words_of_a_real_tokenizer() -> None:
    module = _continued(whole_words=True, mask_fraction=0.4)
    tokenizer: Any = module.encoder.tokenizer
    features = module.encoder.tokenize(["Unbelievable xylophonists misunderstand snowmobiles.", "A dog runs."])
    split = False
    for step in range(40):
        _, labels = module.masked(features, Stream(0, "validation masks", batch=step))
        for row, ids in zip((labels != IGNORED).tolist(), features["input_ids"].tolist(), strict=True):
            for i, token in enumerate(tokenizer.convert_ids_to_tokens(ids)):
                if token.startswith("##"):
                    split = True
                    assert row[i] == row[i - 1]
    assert split
    tokens = _continued(mask_fraction=0.4)
    chosen = tokens.masked(features, Stream(0, "validation masks"))[1][0] != IGNORED
    assert chosen.any()
    assert not torch.equal(chosen, module.masked(features, Stream(0, "validation masks"))[1][0] != IGNORED)


@pytest.mark.parametrize("whole_words", [False, True])
def test_only_real_tokens_are_chosen_and_all_of_them_sometimes(whole_words: bool) -> None:
    module = _continued(mask_fraction=0.9, whole_words=whole_words)
    features = module.encoder.tokenize(["A dog runs.", "The old man in the park is chasing a small cat."])
    seen = torch.zeros_like(features["input_ids"], dtype=torch.bool)
    for step in range(50):
        masked, labels = module.masked(features, Stream(0, "validation masks", batch=step))
        seen |= labels != IGNORED
        assert torch.equal(masked["attention_mask"], features["attention_mask"])
    special = torch.isin(features["input_ids"], torch.tensor(module.encoder.tokenizer.all_special_ids))
    assert torch.equal(seen, ~special)


def test_steps_streams_and_seeds_mask_differently_and_repeatably() -> None:
    module, other = _scratch(), _scratch(seed=1)
    features = module.encoder.tokenize(TEXT[:64])

    def labels(m: MLMModule, batch: int) -> Tensor:
        return m.masked(features, m.stream("masks", batch))[1]

    first = labels(module, 0)
    assert torch.equal(first, labels(module, 0))
    for another in (
        labels(module, 1),
        labels(other, 0),
        module.masked(features, Stream(0, "validation masks"))[1],
        module.masked(features, Stream(0, "masks", epoch=1))[1],
        module.masked(features, Stream(0, "masks", rank=1))[1],
    ):
        assert not torch.equal(first, another)


# --------------------------------------------------------------------- loss


def test_loss_and_gradient_are_those_of_all_logits() -> None:
    module = _scratch().eval()
    features, labels = module.masked(module.encoder.tokenize(TEXT[:16]), Stream(0, "validation masks"))
    loss, accuracy, count = module.loss(features, labels)
    logits = module.predictor(**features).logits
    expected = functional.cross_entropy(logits.transpose(1, 2), labels)
    torch.testing.assert_close(loss, expected, atol=1e-6, rtol=0)
    assert count == int((labels != IGNORED).sum()) > 0
    right = logits.argmax(-1)[labels != IGNORED] == labels[labels != IGNORED]
    assert accuracy.item() == pytest.approx(right.float().mean().item())
    assert loss.item() == pytest.approx(math.log(len(module.encoder.tokenizer)), abs=0.5)
    weights = [p for p in module.predictor.parameters() if p.requires_grad]
    for a, b in zip(torch.autograd.grad(loss, weights), torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_logits_of_another_architecture_are_chosen_alike() -> None:
    tokenizer: Any = SentenceEncoder.from_pretrained("builtin-sample").tokenizer
    torch.manual_seed(0)
    backbone = DistilBertModel(
        DistilBertConfig(vocab_size=len(tokenizer), dim=16, n_layers=1, n_heads=2, hidden_dim=32)
    )
    module = MLMModule(SentenceEncoder(backbone, tokenizer, frozen=False)).eval()
    features, labels = module.masked(module.encoder.tokenize(TEXT[:4]), Stream(0, "validation masks"))
    expected = functional.cross_entropy(module.predictor(**features).logits.transpose(1, 2), labels)
    torch.testing.assert_close(module.loss(features, labels)[0], expected, atol=1e-6, rtol=0)


def test_loss_of_a_batch_without_chosen_tokens_is_zero_and_has_a_gradient() -> None:
    module = _scratch()
    features = module.encoder.tokenize(["A dog."])
    loss, _, count = module.loss(features, torch.full_like(features["input_ids"], IGNORED))
    assert (loss.item(), count) == (0.0, 0)
    (gradient,) = torch.autograd.grad(loss, module.predictor.get_input_embeddings().weight)
    assert not gradient.any()


def test_loss_is_float32_under_bf16() -> None:
    module = _continued().eval()
    features, labels = module.masked(module.encoder.tokenize(TEXT[:16]), Stream(0, "validation masks"))
    exact = module.loss(features, labels)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = module.loss(features, labels)[0]
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(exact.item(), rel=0.01)


# ----------------------------------------------------------------- training


def test_loss_goes_down_and_the_same_seed_gives_the_same() -> None:
    def run() -> tuple[float, float, dict[str, Tensor]]:
        torch.manual_seed(0)  # dropout
        module = _scratch(seed=1)
        data, trainer = _data(module), _trainer(60)
        before = trainer.validate(module, data, verbose=False)[0]["val/mlm_loss"]
        trainer.fit(module, datamodule=data)
        after = trainer.validate(module, data, verbose=False)[0]["val/mlm_loss"]
        return before, after, module.state_dict()

    state = torch.get_rng_state()
    (before, after, weights), (_, again, weights_again) = run(), run()
    torch.set_rng_state(state)
    assert after < before - 1
    assert after == again
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)


def test_a_step_moves_the_encoder_that_is_evaluated() -> None:
    module = _continued(learning_rate=1e-3)
    data, evaluation = _data(module, tasks=["SAMPLE"]), STSEvaluation()
    start = module.sentence_embeddings(TEXT[:4])
    torch.testing.assert_close(module.start_embeddings(TEXT[:4]), start)
    trainer = _trainer(3, callbacks=[evaluation], limit_train_batches=3, limit_val_batches=1)
    trainer.fit(module, datamodule=data)
    now = module.sentence_embeddings(TEXT[:4])
    assert (now - start).abs().max() > 1e-3
    torch.testing.assert_close(module.start_embeddings(TEXT[:4]), start)
    torch.testing.assert_close(module.transforms()["mlm"](now), now)
    figures = {found.method: found.figures.all for found in evaluation.figures}
    assert set(figures) == {"raw", "mlm"}
    assert figures["raw"] != figures["mlm"]


def test_bf16_mixed_precision_trains_float32_weights() -> None:
    module = _scratch(cosreg_weight=1.0)
    trainer = _trainer(5, precision="bf16-mixed", limit_train_batches=5)
    trainer.fit(module, datamodule=_data(module))
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    assert math.isfinite(trainer.callback_metrics["val/mlm_loss"].item())


def test_cosine_regularization_spreads_the_word_embeddings() -> None:
    cosines, losses = {}, {}
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        module = _scratch(cosreg_weight=weight)
        data, trainer = _data(module), _trainer(60)
        trainer.fit(module, datamodule=data)
        cosines[weight] = module.word_cosine().item()
        losses[weight] = trainer.callback_metrics["val/mlm_loss"].item()
    assert cosines[0.0] > 0.05
    assert cosines[1.0] < 0.5 * cosines[0.0]
    assert losses[1.0] == pytest.approx(losses[0.0], abs=0.5)


def test_biases_and_norms_are_spared_from_weight_decay_and_the_rate_warms_up() -> None:
    module = _scratch(weight_decay=0.1, warmup=0.5)
    trainer = _trainer(4)
    trainer.fit(module, datamodule=_data(module, held_out=0.0, max_sentences=64))
    decayed, spared = trainer.optimizers[0].param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in spared["params"]} == {1}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(module.predictor.parameters()))
    scheduler = trainer.lr_scheduler_configs[0].scheduler
    assert isinstance(scheduler, LambdaLR)
    assert [scheduler.lr_lambdas[0](step) for step in range(4)] == [0.0, 0.5, 1.0, 0.5]


# ---------------------------------------------------- start, saving, resuming


def test_same_seed_same_start_and_global_generator_untouched() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
    state = torch.get_rng_state()
    first, again, other = _scratch(seed=5), _scratch(seed=5), _scratch(seed=6)
    continued = MLMModule(encoder)
    assert torch.equal(torch.get_rng_state(), state)
    weights = [_word_embeddings(m) for m in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    torch.testing.assert_close(first.start_embeddings(TEXT[:4]), first.sentence_embeddings(TEXT[:4]))
    head, head_again = continued.predictor.cls.state_dict(), _continued().predictor.cls.state_dict()
    assert all(torch.equal(head[name], head_again[name]) for name in head)


def test_a_run_from_scratch_takes_its_vocabulary_from_the_fitting_sentences() -> None:
    options: dict[str, Any] = {"scratch": True, "vocab_size": 500, **SIZES}
    module = MLMModule(**options)
    data = make_data(MLMDataModule, corpus="builtin-sample", max_sentences=400, held_out=0.1)
    data.load()
    encoder = module.make_encoder(data.corpus_sentences(), layers="first_last", pooling="cls")
    assert (encoder.layers, encoder.pooling, encoder.max_length, encoder.path) == ((1,), "cls", 128, "scratch")
    _trainer(1, limit_val_batches=0).fit(module, datamodule=data)
    assert module.encoder.tokenizer.get_vocab() == encoder.tokenizer.get_vocab()
    assert len(encoder.tokenizer.get_vocab()) <= 500


def test_prediction_layers_of_the_checkpoint_are_taken(tmp_path: Path) -> None:
    module = _scratch().eval()
    with torch.no_grad():
        module.predictor.cls.predictions.bias.add_(1.5)
    module.save_fitted(tmp_path)
    again = _continued(str(tmp_path / "encoder")).eval()
    features, labels = module.masked(module.encoder.tokenize(TEXT[:8]), Stream(0, "validation masks"))
    torch.testing.assert_close(again.loss(features, labels)[0], module.loss(features, labels)[0])
    assert again.predictor.cls.predictions.bias.mean().item() == pytest.approx(1.5)


def test_saved_encoder_loads_with_and_without_its_prediction_layers(tmp_path: Path) -> None:
    module = _continued()
    _trainer(2).fit(module, datamodule=_data(module))
    module.save_fitted(tmp_path)
    module.save_fitted(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    folder = tmp_path / "encoder"
    loaded = SentenceEncoder.from_pretrained(str(folder))
    torch.testing.assert_close(torch.from_numpy(loaded.encode(TEXT[:8])), module.sentence_embeddings(TEXT[:8]))
    features = module.encoder.tokenize(TEXT[:8])
    plain = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    module.eval()
    for other, own in ((plain, module.encoder.backbone), (AutoModelForMaskedLM.from_pretrained(folder), None)):
        result = other.eval()(**features)[0]
        torch.testing.assert_close(result, (own or module.predictor)(**features)[0])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer("dog " * 50)["input_ids"]) == 52


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    def fit(epochs: int, checkpoint: Path | None = None) -> MLMModule:
        module = _scratch(schedule="constant", warmup=0.0, dropout=0.0)
        trainer = _trainer(-1, max_epochs=epochs)
        data = _data(module, max_sentences=64, held_out=0.0)
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module

    whole = fit(2)
    assert (_word_embeddings(whole) - _word_embeddings(fit(1))).abs().max() > 1e-3
    resumed = fit(2, tmp_path / "1.ckpt")
    torch.testing.assert_close(_word_embeddings(resumed), _word_embeddings(whole), atol=1e-6, rtol=0)
    saved = torch.load(tmp_path / "1.ckpt", weights_only=True)
    assert saved["hyper_parameters"]["hidden_size"] == 32
    assert "weights" not in saved["encoder_key"]


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_fraction": 0.0}, r"mask_fraction: received 0\.0; allowed: above 0 and below 1"),
        ({"mask_fraction": 1.0}, r"mask_fraction: received 1\.0"),
        ({"cosreg_weight": -1.0}, r"cosreg_weight: received -1\.0; allowed: 0 or more"),
        ({"learning_rate": 0.0}, r"learning_rate: received 0\.0; allowed: above 0"),
        ({"weight_decay": -0.1}, r"weight_decay: received -0\.1"),
        ({"dropout": 1.0}, r"dropout: received 1\.0; allowed: 0 to below 1"),
        ({"schedule": "liner"}, r"'liner'.*did you mean 'linear'"),
        ({"warmup": 1.0}, r"warmup: received 1\.0"),
        ({"scratch": True, "num_attention_heads": 3}, r"received 3; allowed: what divides hidden_size 128"),
        ({"scratch": True, "num_hidden_layers": 0}, r"num_hidden_layers: received 0; allowed: at least 1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MLMModule(**options)


def test_bad_new_encoders() -> None:
    with pytest.raises(UserError, match=r"vocab_size: received 20; allowed: \d+ or more, for the special tokens"):
        _scratch(vocab_size=20)
    module = MLMModule(scratch=True)
    with pytest.raises(UserError, match=r"max_length: received 2; allowed: 3 or more"):
        module.make_encoder(TEXT, max_length=2)
    with pytest.raises(UserError, match="received no sentence; allowed: 1 or more"):
        module.make_encoder([])
    with pytest.raises(UserError, match="needs a pooler, encoder 'scratch' has none"):
        module.make_encoder(TEXT, pooling="cls_pooler")


def test_encoders_that_cannot_be_trained_so() -> None:
    with pytest.raises(ValueError, match=r"received a frozen encoder; allowed: one with frozen=False"):
        MLMModule(SentenceEncoder.from_pretrained("builtin-sample"))
    with pytest.raises(UserError, match=r"dtype: received torch\.bfloat16; allowed in training: float32"):
        MLMModule(trainable_encoder(dtype="bfloat16"))
    encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
    tokenizer: Any = encoder.tokenizer
    with_pooler = BertModel(_tiny_config(tokenizer))
    with pytest.raises(UserError, match=r"pooling: 'cls_pooler' reads a layer that .* allowed: mean, cls, max"):
        MLMModule(SentenceEncoder(with_pooler, tokenizer, pooling="cls_pooler", frozen=False))
    tokenizer.mask_token = None
    with pytest.raises(UserError, match="the tokenizer of builtin-sample has no mask token"):
        MLMModule(encoder)


def test_whole_words_need_a_tokenizer_that_marks_them() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
    encoder.tokenizer = _WithoutMarks(encoder.tokenizer)  # type: ignore[assignment]
    with pytest.raises(UserError, match=r"whole_words: .* has no pieces marked '##'; allowed with it: false"):
        MLMModule(encoder, whole_words=True)


def test_cosine_regularization_needs_tied_embeddings() -> None:
    tokenizer: Any = SentenceEncoder.from_pretrained("builtin-sample").tokenizer
    backbone = BertModel(_tiny_config(tokenizer, tie_word_embeddings=False), add_pooling_layer=False)
    with pytest.raises(UserError, match=r"cosreg_weight: received 1\.0, but .* are not tied"):
        MLMModule(SentenceEncoder(backbone, tokenizer, frozen=False), cosreg_weight=1.0)


def _tiny_config(tokenizer: Any, **options: Any) -> BertConfig:
    return BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, **options)


class _WithoutMarks:
    """A tokenizer whose pieces do not say which word they belong to."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def get_vocab(self) -> dict[str, int]:
        return {token.removeprefix("##"): number for token, number in self._tokenizer.get_vocab().items()}
