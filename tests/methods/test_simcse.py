"""SimCSE: its step, its masked tokens, the collapse that is refused, and that it learns."""

import pytest
import torch

from fits import fit
from flowbert.methods.heads import HEADS
from flowbert.methods.losses import InfoNCE
from flowbert.methods.simcse import SimCSEModule
from helpers import refused
from texts import examples, step, text_data, trainable


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("positive", ["crop", "entailment"])
def test_step_is_the_loss_after_the_head(positive, head):
    encoder = trainable(pooling="cls")
    loss = InfoNCE(0.1, 1.5)
    text = "infonce:temperature=0.1:hard_negative_weight=1.5"
    module = SimCSEModule(encoder, loss=text, head=head, dropout=0.0)
    data = text_data(encoder, examples(size=8, positive=positive))
    value, gradients = step(module, data.batch(0, list(range(8))))
    columns = []
    for sentences in data.sentences(0, range(8)):
        vectors = encoder(encoder.tokenize(sentences))
        columns.append(vectors if module.head is None else module.head(vectors))
    # Other paddings round otherwise; the temperature of 0.1 makes 10 of 1 unit.
    torch.testing.assert_close(value, loss(*columns).detach(), atol=1e-4, rtol=1e-4)
    assert gradients.keys() == dict(module.named_parameters()).keys()


def test_losses_add_up_by_their_weights(tmp_path):
    module = SimCSEModule(trainable(), mlm_weight=0.5)
    data = text_data(module.encoder, examples(size=8))
    trainer = fit(tmp_path, module=module, data=data, max_steps=1)
    logged = trainer.callback_metrics
    for stage in ("step", "val"):
        parts = logged[f"{stage}/contrastive_loss"] + 0.5 * logged[f"{stage}/mlm_loss"]
        # Means over items are divided sums: roundings of float32.
        torch.testing.assert_close(logged[f"{stage}/loss"], parts, rtol=1e-6, atol=0)


def test_training_without_dropout_is_refused(tmp_path):
    def train(**options):
        encoder = trainable()
        module = SimCSEModule(encoder, dropout=0.0)
        data = text_data(encoder, examples(size=8, **options))
        fit(tmp_path, module=module, data=data, max_steps=1, limit_val_batches=0)

    refused("dropout: received 0", train)
    train(positive="crop")


def test_a_block_above_those_that_are_frozen_is_left():
    refused("frozen_layers: received 9", SimCSEModule, trainable(), frozen_layers=9)
