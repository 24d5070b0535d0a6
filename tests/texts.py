"""Small trainings of an encoder."""

from typing import Any

import torch
from pytorch_lightning import Trainer
from torch import Tensor

from flowbert.data.corpus import Corpus
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.methods.distillation import DistillationModule, teach
from flowbert.methods.examples import Examples, make_examples, uses
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.methods.text import TextBatch, TextDataModule
from flowbert.tasks import load_tasks

# Two documents of sentences that follow each other.
CORPUS = Corpus("sample", sample_corpus()[:200], blank=1, starts=(0, 100))
METHODS = {
    "simcse": SimCSEModule,
    "sbert": SBERTModule,
    "mlm": MLMModule,
    "distillation": DistillationModule,
}


def trainable(**options: Any) -> SentenceEncoder:
    settings: dict[str, Any] = {"path": "builtin-sample", "frozen": False, **options}
    return SentenceEncoder(**settings)


def small_network(kind: Any, config: Any, **options: Any) -> Backbone:
    """A network of another kind with random weights, without a folder."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = kind(config(vocab_size=2000, **sizes, **options))
    return Backbone(network, trainable().backbone.tokenizer)


def examples(method: str = "simcse", size: int = 32, **options: Any) -> Examples:
    positive, objective = options.get("positive"), options.get("objective")
    used, _ = uses(method, None, positive, objective)
    given = dict(options)
    if "nli" in used:
        given["nli"] = "builtin-sample"
    if options.get("objective") == "cosine":
        given["tasks"] = load_tasks("SAMPLE")
    corpus = CORPUS if "corpus" in used else None
    if method != "distillation":
        return make_examples(method, corpus, **given).sample(size, 0)
    made = make_examples(method, corpus, teacher="builtin-sample").sample(size, 0)
    teacher, student = trainable(layers="first_last"), trainable()
    sentences = made.columns[0]
    return teach(made, teacher.encode(sentences), student.encode(sentences))


def text_data(encoder: SentenceEncoder, of: Examples, **options: Any) -> TextDataModule:
    settings: dict[str, Any] = {"batch_size": 8, **options}
    return TextDataModule(encoder, of, **settings)


def step(module: Any, batch: TextBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of a training step outside of a fit, and its gradients."""
    module.trainer = Trainer(accelerator="cpu", logger=False)
    module.log = module.log_dict = lambda *_, **__: None
    module.zero_grad()
    loss = module.training_step(batch, 0)
    loss.backward()
    named = module.named_parameters()
    gradients = {name: p.grad.clone() for name, p in named if p.grad is not None}
    return loss.detach(), gradients
