"""Masked language modelling: the masks, the loss, learning, and the saved encoder."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Trainer
from safetensors.torch import load_file
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer

from flowbert.data.sample import encoder_path, sample_corpus
from flowbert.errors import UserError
from flowbert.modules.mlm import IGNORED, MLMModule, mask_tokens
from flowbert.modules.sample_encoder import pretrain_sample_encoder

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers")  # the text is in memory already

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


def _module(**options: Any) -> MLMModule:
    return MLMModule(str(encoder_path()), **{"scratch": SIZES, "learning_rate": 3e-3, **options})


def _mask(ids: Tensor, maskable: Tensor, fraction: float = 0.15, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return mask_tokens(ids, maskable, mask_id=4, vocab_size=1000, fraction=fraction, generator=generator)


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


def test_special_tokens_and_padding_are_never_chosen() -> None:
    module = _module(mask_fraction=0.9)
    features = module.tokenize(["A dog runs.", "The old man in the park is chasing a small cat."])
    seen = torch.zeros_like(features["input_ids"], dtype=torch.bool)
    for step in range(50):
        masked, labels = module.masked(features, "val", step)
        seen |= labels != IGNORED
        assert torch.equal(masked["attention_mask"], features["attention_mask"])
    special = torch.isin(features["input_ids"], torch.tensor(module.tokenizer.all_special_ids))
    assert torch.equal(seen, ~special)


def test_steps_streams_and_seeds_mask_differently_and_repeatably() -> None:
    module, other = _module(), _module(seed=1)
    features = module.tokenize(list(sample_corpus()[:64]))

    def labels(m: MLMModule, stream: str, step: int) -> Tensor:
        return m.masked(features, stream, step)[1]

    module.trainer = other.trainer = Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    first = labels(module, "train", 0)
    assert torch.equal(first, labels(module, "train", 0))
    for another in (labels(module, "train", 1), labels(module, "val", 0), labels(other, "train", 0)):
        assert not torch.equal(first, another)


def test_loss_is_the_mean_cross_entropy_of_the_chosen_tokens() -> None:
    module = _module().eval()
    features, labels = module.masked(module.tokenize(list(sample_corpus()[:16])), "val", 0)
    loss, accuracy, count = module.loss(features, labels)
    expected = module.model(**features, labels=labels).loss
    torch.testing.assert_close(loss, expected)
    assert count == int((labels != IGNORED).sum()) > 0
    assert 0 <= accuracy.item() <= 1
    assert loss.item() == pytest.approx(math.log(len(module.tokenizer)), abs=0.5)


def test_loss_of_a_batch_without_chosen_tokens_is_zero_and_has_a_gradient() -> None:
    module = _module()
    features = module.tokenize(["A dog."])
    loss, _, count = module.loss(features, torch.full_like(features["input_ids"], IGNORED))
    assert (loss.item(), count) == (0.0, 0)
    (gradient,) = torch.autograd.grad(loss, next(module.model.parameters()))
    assert not gradient.any()


def test_same_seed_same_start_and_global_generator_untouched() -> None:
    state = torch.get_rng_state()
    first, again, other = _module(seed=5), _module(seed=5), _module(seed=6)
    assert torch.equal(torch.get_rng_state(), state)
    weights = [_word_embeddings(m) for m in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_biases_and_norms_are_spared_from_weight_decay_and_the_rate_warms_up() -> None:
    module = _module(weight_decay=0.1, warmup=0.5)
    loader = _loader(module, sample_corpus()[:64])
    trainer = _trainer(max_steps=4)
    trainer.fit(module, loader, loader)
    decayed, spared = trainer.optimizers[0].param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in spared["params"]} == {1}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(module.model.parameters()))
    scheduler = trainer.lr_scheduler_configs[0].scheduler
    assert isinstance(scheduler, LambdaLR)
    factor = scheduler.lr_lambdas[0]
    assert [factor(step) for step in range(4)] == [0.5, 1.0, 1.0, 0.5]


def _loader(module: MLMModule, text: tuple[str, ...]) -> Any:
    return DataLoader(text, batch_size=16, collate_fn=module.tokenize)  # type: ignore[arg-type]


def _trainer(max_steps: int) -> Trainer:
    return Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=max_steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _word_embeddings(module: MLMModule) -> Tensor:
    weights: Tensor = module.state_dict()["model.bert.embeddings.word_embeddings.weight"]
    return weights


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_fraction": 0.0}, r"model\.mask_fraction: received 0\.0; allowed: above 0 and below 1"),
        ({"learning_rate": 0.0}, r"model\.learning_rate: received 0\.0; allowed: above 0"),
        ({"schedule": "liner"}, r"'liner'.*did you mean 'linear'"),
        ({"warmup": 1.0}, r"model\.warmup: received 1\.0"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _module(**options)


def test_hyperparameters_are_plain(tmp_path: Path) -> None:
    module = _module()
    trainer = _trainer(max_steps=1)
    loader = _loader(module, sample_corpus()[:16])
    trainer.fit(module, loader, loader)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    saved = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert saved["hyper_parameters"]["scratch"] == SIZES
    assert type(saved["hyper_parameters"]["path"]) is str


def test_saved_encoder_loads_and_computes_the_same(tmp_path: Path) -> None:
    module = _module().eval()
    module.save_encoder(tmp_path / "new" / "encoder")
    loaded = AutoModel.from_pretrained(tmp_path / "new" / "encoder", add_pooling_layer=False).eval()
    features = module.tokenize(["A dog runs."])
    assert not any(name.startswith("pooler") for name in load_file(tmp_path / "new" / "encoder" / "model.safetensors"))
    torch.testing.assert_close(loaded(**features).last_hidden_state, module.model.bert(**features).last_hidden_state)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["encoder"]
    with pytest.raises(UserError, match="encoder: there is something already; allowed: a new or an empty folder"):
        module.save_encoder(tmp_path / "new" / "encoder")


def test_continuing_takes_the_weights_at_the_path() -> None:
    continued = MLMModule(str(encoder_path()))
    weights = load_file(encoder_path() / "model.safetensors")["embeddings.word_embeddings.weight"]
    torch.testing.assert_close(_word_embeddings(continued), weights.float())
    assert continued.model.dtype == torch.float32


def test_pretraining_learns_and_is_repeatable(tmp_path: Path) -> None:
    text = sample_corpus()[:160]
    options: dict[str, Any] = {"seed": 1, "steps": 20, "batch_size": 16, "learning_rate": 3e-3, "sentences": text}
    state = torch.get_rng_state()
    reports = [pretrain_sample_encoder(tmp_path / name, **options) for name in "ab"]
    assert torch.equal(torch.get_rng_state(), state)
    assert reports[0] == reports[1]
    assert reports[0]["end"]["val/mlm_loss"] < reports[0]["start"]["val/mlm_loss"] - 1
    assert len(reports[0]["curve"]) == 20
    files = [load_file(tmp_path / name / "model.safetensors") for name in "ab"]
    assert all(torch.equal(files[0][name], files[1][name]) for name in files[0])
    assert {tensor.dtype for tensor in files[0].values()} == {torch.float16}
    assert len(AutoTokenizer.from_pretrained(tmp_path / "a")) <= 2000
    with pytest.raises(UserError, match="there is something already"):
        pretrain_sample_encoder(tmp_path / "a", steps=1)
