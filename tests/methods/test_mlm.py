"""Masked language modelling: the masks, the loss of chosen tokens, words that spread."""

import warnings

import pytest
import torch
from torch.nn import functional

from fits import fit
from flowbert.methods.masking import (
    IGNORED,
    mask_tokens,
    masked_losses,
    predict_chosen,
)
from flowbert.methods.mlm import MLMModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.seeding import Stream
from helpers import refused
from texts import examples, small_network, text_data, trainable


class Tokenizer:
    """The mask token, 4, is the only special one of 1,000."""

    mask_token_id = 4
    all_special_ids = (4,)

    def __len__(self):
        return 1000


def masked(ids, fraction=0.15, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return mask_tokens(ids, Tokenizer(), fraction, generator, **options)


def random_ids(*shape):
    return torch.randint(100, 1000, shape)


def test_shares_of_masked_random_and_kept_tokens():
    ids = random_ids(400, 500)
    inputs, labels = masked(ids)
    chosen = labels != IGNORED
    # Five standard errors of shares of 200,000 and 30,000 tokens.
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.004)
    assert (inputs[chosen] == 4).float().mean().item() == pytest.approx(0.8, abs=0.012)
    kept = (inputs[chosen] == ids[chosen]).float().mean().item()
    assert kept == pytest.approx(0.1, abs=0.009)
    drawn = inputs[chosen & (inputs != 4) & (inputs != ids)].float()
    assert drawn.mean().item() == pytest.approx(500, abs=27)
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(inputs[~chosen], ids[~chosen])


def test_masks_depend_on_the_generator_and_spare_special_tokens():
    ids = random_ids(20, 20)
    ids[:, ::2] = 4
    state = torch.get_rng_state()
    first, again, other = (masked(ids, 0.5, seed)[1] for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (first[:, ::2] == IGNORED).all()
    assert (masked(ids, 0.999999)[1][:, 1::2] == ids[:, 1::2]).all()


def test_whole_words_are_chosen_together():
    ids = random_ids(300, 200)
    continues = torch.rand(ids.shape) < 0.5
    continues[:, 0] = False
    chosen = masked(ids, continues=continues)[1] != IGNORED
    inner = continues[:, 1:]
    assert torch.equal(chosen[:, 1:][inner], chosen[:, :-1][inner])
    # Five standard errors of 30,000 words.
    assert chosen[~continues].float().mean().item() == pytest.approx(0.15, abs=0.011)
    without = masked(ids, continues=torch.zeros_like(continues))
    assert all(torch.equal(a, b) for a, b in zip(masked(ids), without, strict=True))


def test_words_of_a_tokenizer():
    module = MLMModule(trainable(), whole_words=True)
    tokenizer = module.encoder.backbone.tokenizer
    ids = module.encoder.tokenize(["Unbelievable xylophonists misunderstand."])[
        "input_ids"
    ]
    assert module.continuing is not None
    continues = torch.isin(ids, module.continuing)[0].tolist()
    tokens = tokenizer.convert_ids_to_tokens(ids[0].tolist())
    assert continues == [token.startswith("##") for token in tokens]
    assert any(continues)


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_loss_and_gradients_are_those_of_all_logits(kind):
    path = "builtin-sample" if kind == "bert" else small_network(kind)
    module = MLMModule(trainable(path=path), dropout=0.0)
    encoder, predictor = module.encoder, module.predictor
    (chunk,) = text_data(encoder, examples("mlm")).features(0, range(16))["chunks"]
    ids, labels = mask_tokens(
        chunk["input_ids"], encoder.backbone.tokenizer, 0.3, torch.Generator()
    )
    chunk = {**chunk, "input_ids": ids}
    logits = predictor(**chunk).logits
    expected = functional.cross_entropy(logits.transpose(1, 2), labels)
    halves = [
        {name: x[rows] for name, x in chunk.items()}
        for rows in (slice(8), slice(8, 16))
    ]
    parts = [labels[:8], labels[8:]]
    loss = functional.cross_entropy(*predict_chosen(predictor, halves, parts))
    torch.testing.assert_close(loss, expected)
    weights = list(predictor.parameters())
    gradients = torch.autograd.grad(loss, weights)
    whole = torch.autograd.grad(expected, weights)
    scale = max(float(gradient.abs().max()) for gradient in whole)
    for gradient, other in zip(gradients, whole, strict=True):
        # Sums of thousands of terms in another order, in units of 6e-8 of the largest.
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-5 * scale)


def test_a_batch_without_chosen_tokens_has_loss_zero_and_a_gradient():
    module = MLMModule(trainable(), mask_fraction=1e-9)
    chunk = module.encoder.tokenize(["A dog."])
    loss = masked_losses(module, [chunk], Stream(0, "masks"), 1.0)["mlm_loss"][1]
    assert loss == 0
    weight = module.predictor.get_input_embeddings().weight
    assert not torch.autograd.grad(loss, weight)[0].any()


def test_prediction_layers_are_saved_and_start_by_seed(tmp_path):
    encoder = trainable()
    state = torch.get_rng_state()
    first, again, other = (MLMModule(encoder, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    head, same, different = (
        m.predictor.cls.state_dict() for m in (first, again, other)
    )
    assert all(torch.equal(head[name], same[name]) for name in head)
    assert not all(torch.equal(head[name], different[name]) for name in head)
    other.trained_encoder().save(tmp_path / "encoder")
    loaded = MLMModule(trainable(path=tmp_path / "encoder"))
    for name, value in loaded.predictor.cls.state_dict().items():
        assert torch.equal(value, different[name])


@pytest.mark.filterwarnings("default:.*has no prediction layers")
def test_new_prediction_layers_are_told(tmp_path):
    def small(path=None):
        return trainable(path=path or small_network("bert"))

    def told(module):
        of = examples("mlm" if isinstance(module, MLMModule) else "simcse", 24)
        data = text_data(module.encoder, of)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(tmp_path, module=module, data=data, max_steps=1, limit_val_batches=0)
        texts = [str(each.message) for each in caught]
        return sum("has no prediction layers" in text for text in texts)

    assert told(MLMModule(small())) == 1
    assert told(SimCSEModule(small(), mlm_weight=0.1)) == 1
    first = MLMModule(small(), head_only=True)
    assert told(first) == 0
    first.trained_encoder().save(tmp_path / "encoder")
    assert told(MLMModule(small(tmp_path / "encoder"))) == 0


def test_networks_and_tokenizers_have_limits(tmp_path, monkeypatch):
    gpt2 = trainable(path=small_network("gpt2"))
    refused("encoder: received '' of type 'gpt2'", MLMModule, gpt2)
    pooled = SimCSEModule(trainable(pooling="cls"), head="mlp")
    pooled.trained_encoder().save(tmp_path)
    message = "pooling: received cls_pooler"
    refused(message, MLMModule, trainable(path=tmp_path))
    encoder = trainable()
    tokenizer = encoder.backbone.tokenizer
    monkeypatch.setattr(tokenizer, "get_vocab", lambda: {"a": 5})
    refused(
        "whole_words: received true; expected false",
        MLMModule,
        encoder,
        whole_words=True,
    )
    tokenizer.mask_token = None
    refused("whose tokenizer has no mask token", MLMModule, encoder)
