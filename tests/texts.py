"""Small trainings of an encoder."""

from inspect import signature
from typing import Any

import torch
from pytorch_lightning import Trainer
from transformers import AutoConfig, AutoModel

from flowbert.data.corpus import Corpus
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.methods.examples import EXAMPLES, make_examples
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.methods.text import TextDataModule
from flowbert.tasks import load_tasks

# Two documents of sentences that follow each other.
CORPUS = Corpus("sample", sample_corpus()[:200], blank=1, starts=(0, 100))
METHODS: dict[str, Any] = {
    "simcse": SimCSEModule,
    "sbert": SBERTModule,
    "mlm": MLMModule,
}


def trainable(**options):
    settings = {"path": "builtin-sample", "frozen": False, **options}
    return SentenceEncoder(**settings)


def small_network(kind):
    """A network of a kind with random weights, without a folder."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model(kind, vocab_size=2000, **sizes)
        network = AutoModel.from_config(config)
    return Backbone(network, trainable().backbone.tokenizer)


def examples(method="simcse", size=32, positive="dropout", objective="softmax"):
    text = {"simcse": positive, "sbert": objective}.get(method, "sentences")
    reads = signature(EXAMPLES.parse(text)[0]).parameters
    corpus = CORPUS if "corpus" in reads else None
    nli = "builtin-sample" if "nli" in reads else None
    tasks = load_tasks("SAMPLE") if "tasks" in reads else ()
    return make_examples(text, corpus, nli=nli, tasks=tasks).sample(size, 0)


def text_data(encoder, of, **options):
    settings = {"batch_size": 8, **options}
    return TextDataModule(encoder, of, **settings)


def step(module, batch):
    """Loss of a training step outside of a fit, and its gradients."""
    module.trainer = Trainer(accelerator="cpu", logger=False)
    module.log = module.log_dict = lambda *_, **__: None
    module.zero_grad()
    loss = module.training_step(batch, 0)
    loss.backward()
    named = module.named_parameters()
    gradients = {name: p.grad.clone() for name, p in named if p.grad is not None}
    return loss.detach(), gradients
