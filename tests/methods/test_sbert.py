"""Sentence-BERT: the step of each objective on its data, and that it learns."""

from typing import Any

import pytest
import torch

from flowbert.methods.sbert import (
    SBERTModule,
    cosine_loss,
    softmax_loss,
    triplet_loss,
)
from flowbert.options import OBJECTIVES
from helpers import refused
from texts import examples, step, text_data, trainable


@pytest.mark.parametrize(
    ("objective", "pooling"), [*zip(OBJECTIVES, ("mean", "cls", "max"), strict=True)]
)
def test_step_is_the_objective(objective, pooling):
    encoder = trainable(pooling=pooling)
    options: dict[str, Any] = {"margin": 0.7} if objective == "triplet" else {}
    module = SBERTModule(encoder, objective=objective, **options, dropout=0.0)
    of = examples("sbert", size=8, objective=objective)
    module.check_examples(of)
    data = text_data(encoder, of)
    batch = data.batch(0, list(range(8)))
    loss, gradients = step(module, batch)
    columns = [encoder(encoder.tokenize(side)) for side in data.sentences(0, range(8))]
    targets: tuple[Any, ...] = (batch.get("targets"), module.classifier)
    losses: dict[str, Any] = {
        "softmax": lambda u, v: softmax_loss(u, v, *targets),
        "cosine": lambda u, v: cosine_loss(u, v, targets[0]),
        "triplet": lambda a, p, n: triplet_loss(a, p, n, 0.7),
    }
    expected = losses[objective](*columns)
    # Other paddings round otherwise.
    torch.testing.assert_close(loss, expected.detach(), atol=1e-5, rtol=1e-4)
    assert gradients.keys() == dict(module.named_parameters()).keys()


def test_objectives_need_their_examples():
    refused(
        "objective: received 'sofmax'", SBERTModule, trainable(), objective="sofmax"
    )
    for objective in OBJECTIVES:
        module = SBERTModule(trainable(), objective=objective)
        for other in {*OBJECTIVES} - {objective}:
            refused(
                f"objective: received '{objective}'",
                module.check_examples,
                examples("sbert", size=8, objective=other),
            )


def test_the_seed_decides_the_classifier():
    weights = [SBERTModule(trainable(), seed=seed).classifier for seed in (0, 0, 1)]
    first, again, other = (layer.weight for layer in weights if layer is not None)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
