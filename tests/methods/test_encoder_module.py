"""What all methods share that train an encoder: steps, checkpoints, processes, saving."""

import os
import socket
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import LambdaCallback, ModelCheckpoint
from torch import multiprocessing
from torch.testing import assert_close

from encoders.tiny import CONFIGS, tiny_encoder
from fits import differences, fit
from flowbert.encoders import SentenceEncoder
from flowbert.methods.encoder_module import (
    TOKEN_WEIGHTS_RATE,
    dropout_rates,
    set_dropout,
)
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.options import TRAINED_METHODS
from flowbert.seeding import Stream
from helpers import refused, with_slow
from texts import METHODS, examples, small_network, step, text_data, trainable

DROPOUT_OPTIONS = (
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "dropout",
    "hidden_dropout_prob",
)
SENTENCES = ["the cat sleeps", "a big dog runs on the mat", "été 東京"]


def small(**options):
    """An encoder of one block."""
    return trainable(path=small_network("bert"), **options)


def train(method, folder, *callbacks, seed=0, pooling="mean", **options):
    """Three batches of 8 in each of two epochs, with all that is random."""
    encoder = small(pooling=pooling)
    given: dict[str, Any] = {"learning_rate": 1e-3, "seed": seed}
    if method == "simcse":
        given |= {"mlm_weight": 0.1, "chunk_size": 5}
    module = METHODS[method](encoder, **given)
    positive = {"positive": "crop"} if method == "simcse" else {}
    data = text_data(encoder, examples(method, 24, **positive), pool=2)
    return fit(folder, *callbacks, module=module, data=data, **options)


@pytest.mark.parametrize("method", with_slow(METHODS, ["mlm", "simcse"]))
def test_resumed_runs_end_like_uninterrupted_ones(method, tmp_path):
    pooling = "learned_weights" if method == "simcse" else "mean"

    def run(*callbacks, **options):
        return train(method, tmp_path, *callbacks, pooling=pooling, **options)

    folder = tmp_path / "checkpoints"
    keep = ModelCheckpoint(folder, "{step}", every_n_train_steps=2, save_top_k=-1)
    whole = run(keep)
    steps = 2 if method == "simcse" else 4  # in the first epoch or the second
    file = folder / f"step={steps}.ckpt"
    assert differences(whole, run(ckpt_path=file)) == []
    if method == "mlm":
        assert differences(whole, run(seed=1)) != []


@pytest.mark.parametrize("method", METHODS)
def test_token_weights_are_trained_where_the_loss_pools(method, tmp_path):
    trainer = train(method, tmp_path, pooling="learned_weights", max_steps=2)
    module = trainer.lightning_module
    factors = module.encoder.log_token_factors.weight
    groups = trainer.optimizers[0].param_groups
    if method == "mlm":
        assert factors.abs().max() == 0
        assert len(groups) == 2
    else:
        assert factors.abs().max() > 0
        assert [p is factors for p in groups[2]["params"]] == [True]
        assert groups[2]["lr"] == TOKEN_WEIGHTS_RATE * groups[0]["lr"]
        assert groups[2]["weight_decay"] == 0


class Gradients(Callback):
    """Loss and gradients of the first step."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        named = pl_module.named_parameters()
        self.tensors = {name: p.grad.clone() for name, p in named if p.grad is not None}

    def on_train_batch_end(self, trainer, pl_module, outputs, *_):
        self.tensors["loss"] = outputs["loss"].clone()


JOINT = ("simcse", "simcse, whitening:shrinkage=0.3", "sbert", "sbert of xlnet")
"""Methods, with a head or a network with weights that its vectors do not read."""


def layer_two_of_four(kind, **options):
    """An encoder with weights that its vectors do not read, for which DDP would wait."""
    sizes = {"n_layer" if kind == "xlnet" else "num_hidden_layers": 4}
    return tiny_encoder(kind, sizes, layers=2, frozen=False, **options)


def joint_step(method, folder, **options):
    """Gradients of a batch of 16 examples of all processes together."""
    method, _, head = method.partition(", ")
    method, _, kind = method.partition(" of ")
    # The weights of tokens are trained, too; they begin as the mean.
    pooling = "learned_weights"
    encoder = small(pooling=pooling)
    if kind:
        encoder = layer_two_of_four(kind, pooling=pooling)
    given: dict[str, Any] = (
        {"loss": "infonce:hard_negative_weight=0.7"} if method == "simcse" else {}
    )
    given |= {"head": head} if head else {}
    module = METHODS[method](encoder, dropout=0.0, **given)
    of = examples(method, 16, **({"positive": "entailment"} if given else {}))
    data = text_data(encoder, of, batch_size=16 // options.get("devices", 1))
    gradients = Gradients()
    fit(folder, gradients, module=module, data=data, max_steps=1, **options)
    return gradients.tensors


def process(rank, folder, port):
    os.environ |= {
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    options = {"devices": 2, "strategy": "ddp", "limit_val_batches": 0}
    for method in JOINT:
        computed = joint_step(method, folder, **options)
        torch.save(computed, folder / f"{method}-{rank}.pt")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.* directions are few")
def test_two_processes_have_the_gradients_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    multiprocessing.start_processes(  # type: ignore[attr-defined]
        process, (tmp_path, port), nprocs=2, start_method="fork"
    )
    for method in JOINT:
        files = [tmp_path / f"{method}-{rank}.pt" for rank in range(2)]
        results = [torch.load(file, weights_only=True) for file in files]
        expected = joint_step(method, tmp_path, limit_val_batches=0)
        losses = torch.stack([result.pop("loss") for result in results])
        # SimCSE has the joint loss on both, the others the mean of their examples on each.
        assert_close(losses.mean(), expected.pop("loss"))
        for result in results:
            assert result.keys() == expected.keys()
            scale = max(float(gradient.abs().max()) for gradient in expected.values())
            for name, gradient in expected.items():
                # Sums of thousands of terms in another order, in units of 6e-8 of the largest.
                assert_close(result[name], gradient, rtol=1e-4, atol=1e-5 * scale)


TRAININGS: dict[str, dict[str, Any]] = {
    "simcse": {},
    "simcse, mlm": {"mlm_weight": 0.1},
    "simcse, whitening": {"head": "whitening:shrinkage=0.3"},
    "simcse, chunks": {"chunk_size": 4},
    "simcse, upper blocks": {"frozen_layers": 1},
    "sbert": {},
    "mlm": {},
    "mlm, head": {"head_only": True},
}


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
@pytest.mark.parametrize("name", TRAININGS)
def test_the_weights_that_are_read_are_trained_and_no_others(name, kind):
    """For a weight without a gradient, such as BERT's pooler, other processes would wait."""
    if kind == "xlnet" and "mlm" in name:
        return  # it has no masked language model
    encoder, method = layer_two_of_four(kind), name.partition(",")[0]
    module = METHODS[method](encoder, **TRAININGS[name])
    module.setup("fit")
    batch = text_data(encoder, examples(method, 8)).batch(0, list(range(8)))
    _, gradients = step(module, batch)
    named = module.named_parameters()
    assert gradients.keys() == {name for name, p in named if p.requires_grad}
    assert not any("pooler" in key for key in gradients)
    upper = "layer.3" in str(gradients)  # above the layer of the vectors
    assert upper == (name in ("simcse, mlm", "mlm"))
    lower = [part in str(gradients) for part in ("layer.0.", "embedding")]
    assert any(lower) == (name not in ("simcse, upper blocks", "mlm, head"))


WEIGHTS = [
    (method, field.name)
    for method in METHODS
    for field in fields(TRAINED_METHODS[method].model)
    if field.name.endswith("_weight")
]


@pytest.mark.parametrize(("method", "option"), WEIGHTS)
def test_every_weighted_term_trains_something(method, option):
    """A regularizer whose weight is not read, or whose value is detached, would train nothing."""
    terms: list[dict[str, Any]] = []
    for value in (0.0, 0.5):
        module = METHODS[method](small(), **{option: value})
        module.trainer = Trainer(accelerator="cpu", logger=False)
        batch = text_data(module.encoder, examples(method, 8)).batch(0, list(range(8)))
        losses = module.batch_losses(batch, Stream(0, "masks"))
        terms.append({name: x for name, (weight, x, _) in losses.items() if weight})
    (added,) = terms[1].keys() - terms[0]
    weights = [p for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(terms[1][added], weights, allow_unused=True)
    assert any(gradient is not None and gradient.any() for gradient in gradients)


@pytest.mark.parametrize("method", ["simcse", "sbert"])
def test_cached_gradients_are_those_of_the_batch(method):
    results = []
    for chunk_size in (None, 5):
        encoder = trainable(pooling="cls")
        module = METHODS[method](encoder, dropout=0.0, chunk_size=chunk_size)
        options = {"positive": "entailment"} if method == "simcse" else {}
        of = examples(method, 12, **options)
        batch = text_data(encoder, of).batch(0, list(range(12)))
        results.append(step(module, batch))
    (loss, expected), *others = results
    scale = max(float(gradient.abs().max()) for gradient in expected.values())
    for other, gradients in others:
        assert_close(other, loss)
        assert gradients.keys() == expected.keys()
        for name, gradient in gradients.items():
            assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5 * scale)


def test_cached_activations_are_few():
    kept = {}
    for chunk_size in (None, 4):
        module = SimCSEModule(trainable(), head="none", chunk_size=chunk_size)
        batch = text_data(module.encoder, examples(size=16)).batch(0, list(range(16)))
        sizes: list[int] = []

        def keep(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            module.embed(batch)
        kept[chunk_size] = sum(sizes)
    assert kept[4] < kept[None] / 20


def test_optimizer_and_precision(tmp_path):
    encoder = trainable()
    module = SBERTModule(encoder, weight_decay=0.1)
    dtypes = set()
    network: Any = encoder.backbone.network
    layer = network.encoder.layer[0].intermediate.dense
    layer.register_forward_hook(lambda _m, _i, output: dtypes.add(output.dtype))
    data = text_data(encoder, examples("sbert", 16))
    options = {"max_steps": 2, "precision": "bf16-mixed", "limit_val_batches": 0}
    begin = LambdaCallback(on_train_start=lambda *_: dtypes.clear())
    trainer = fit(tmp_path, begin, module=module, data=data, **options)
    assert dtypes == {torch.bfloat16}
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    decayed, spared = trainer.optimizers[0].param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in spared["params"]} == {1}
    assert len(decayed["params"] + spared["params"]) == len(list(module.parameters()))


@pytest.mark.parametrize(
    ("head", "pooling"),
    [
        *((head, "cls") for head in ("mlp_train_only", "mlp", "zca:shrinkage=0.3")),
        ("mlm", "cls"),
        ("none", "learned_weights"),
    ],
)
def test_saved_encoder_gives_the_embeddings(head, pooling, tmp_path):
    encoder = trainable(pooling=pooling, max_length=40, template="text: {}")
    kind = METHODS.get(head)
    module: Any = SimCSEModule(encoder, head=head) if kind is None else kind(encoder)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape)
            parameter.add_(0.05 * noise)
    embeddings = module.predict_step(SENTENCES, 0)
    raw = torch.from_numpy(encoder.encode(SENTENCES))
    if head == "mlp":
        raw = torch.tanh(module.head[0](raw)).detach()
    assert_close(embeddings, raw)
    module.trained_encoder().save(tmp_path / "encoder")
    again = SentenceEncoder(tmp_path / "encoder")
    np.testing.assert_allclose(again.encode(SENTENCES), embeddings, atol=1e-6)
    assert (again.max_length, again.template) == (40, "text: {}")


@pytest.mark.parametrize("kind", CONFIGS)
def test_dropout_of_every_kind_of_network_is_set(kind):
    rates = dict.fromkeys(DROPOUT_OPTIONS, 0.3)
    encoder: Any = tiny_encoder(kind, rates)
    network = encoder.backbone.network.train()
    ids = torch.randint(5, 20, (4, 9))

    def compute():
        with torch.no_grad():
            return network(input_ids=ids).last_hidden_state

    assert not torch.equal(compute(), compute())
    set_dropout(encoder, 0.0)
    assert torch.equal(compute(), compute())
    assert max(dropout_rates(encoder)) == 0


def test_a_checkpoint_is_loaded_with_an_encoder(tmp_path):
    trainer = train("sbert", tmp_path, max_steps=2)
    path = tmp_path / "last.ckpt"
    trainer.save_checkpoint(path)
    again = SBERTModule.load_from_checkpoint(path, encoder=small())
    module = trainer.lightning_module
    expected = module.embed_sentences(SENTENCES)
    assert torch.equal(again.embed_sentences(SENTENCES), expected)
    assert again.hparams["learning_rate"] == 1e-3


def test_weights_stay_in_full_precision(tmp_path):
    message = "precision: received {} and weights"
    refused(
        message.format("bf16-true"), train, "sbert", tmp_path, precision="bf16-true"
    )
    half = small().bfloat16()
    module, data = METHODS["mlm"](half), text_data(half, examples("mlm"))
    refused(message.format("32-true"), fit, tmp_path, module=module, data=data)


MISTAKES = [
    ({}, "none", "schedule: received 'cosin'; expected"),
    ({"frozen": True}, "none", "encoder: received a frozen one"),
    ({"pooling": "mean"}, "mlp", "head: received 'mlp' with pooling mean"),
    (
        {"pooling": "cls", "layers": "last2"},
        "mlp",
        r"head: received 'mlp' with pooling cls and layers \[4, 3\]",
    ),
    (
        {"path": small_network("electra"), "pooling": "cls"},
        "mlp",
        "head: received 'mlp'; .* ElectraModel has no pooler",
    ),
]


@pytest.mark.parametrize(("options", "head", "message"), MISTAKES)
def test_mistakes(options, head, message):
    schedule = "linear" if options else "cosin"
    with pytest.raises(ValueError, match=message):
        SimCSEModule(trainable(**options), head=head, schedule=schedule)


def test_a_given_reading_is_that_of_the_trained_encoder():
    """Also a sink that the pooling would not choose."""
    given = {"layers": "last", "max_length": 20, "sink_token": "the"}
    modules = [
        METHODS["mlm"](small(pooling="mean", **given)),
        METHODS["sbert"](small(pooling="mean", **given)),
        METHODS["simcse"](small(pooling="cls", **given), head="mlp"),
    ]
    for module in modules:
        trained, before = module.trained_encoder(), module.encoder
        kept = {"pooling": trained.reading.pooling}
        assert trained.reading == replace(before.reading, **kept), module.name
        assert trained.sink_token == "the"
