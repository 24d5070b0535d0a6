"""The parts of a run that trains an encoder: examples, encoder, module, compared methods."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flowbert.encoders import SentenceEncoder, open_encoder
from flowbert.errors import UserError
from flowbert.experiments.plan import Method
from flowbert.maps import Raw, make_map
from flowbert.methods.examples import Examples, make_examples
from flowbert.methods.heads import HEADS, SAMPLED_ROWS
from flowbert.methods.text import TextDataModule
from flowbert.options import TRAINED_METHODS, BatchOptions, FitOptions, values_of
from flowbert.registry import import_object
from flowbert.tasks import Task
from flowbert.vectors import EmbeddingCache


def measured_name(options: FitOptions) -> str:
    """Name of the method in logs, with the head if it is a map."""
    head = getattr(options.model, "head", "none")
    return options.method if head in HEADS else f"{options.method}+head"


def load_examples(
    options: FitOptions, tasks: Sequence[Task], load_corpus: Callable[[], Any]
) -> Examples:
    """The examples that the options name."""
    data: Any = options.data
    text = data.examples(options.model)
    return make_examples(
        text, load_corpus, nli=options.nli, tasks=tasks, argument="positive"
    )


def open_frozen(
    options: FitOptions, sentences: Sequence[str], device: Any
) -> SentenceEncoder:
    """The encoder before the training.

    Raises:
        UserError: If it is not a transformer.
    """
    encoder = open_encoder(options.encoder, sentences, device)
    if not isinstance(encoder, SentenceEncoder):
        raise UserError(
            f"received {encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    return encoder


def make_module(
    options: FitOptions, encoder: SentenceEncoder, examples: Examples
) -> tuple[Any, TextDataModule]:
    """The module that trains a copy of the encoder, and its batches."""
    trained = SentenceEncoder(
        **encoder.describe(), token_weights=encoder.token_weights, frozen=False
    )
    seed, batches = options.seed, values_of(options.data, BatchOptions)
    data = TextDataModule(trained, examples, seed=seed, **batches)
    module_class = import_object(TRAINED_METHODS[options.method].module)
    module = module_class(trained, seed=seed, **vars(options.model))
    module.check_examples(examples)
    return module, data


def list_methods(
    options: FitOptions,
    module: Any,
    encoder: SentenceEncoder,
    data: TextDataModule,
    cache: EmbeddingCache,
) -> list[Method]:
    """The trained encoder; if the head is a map, also both encoders with this map.

    Args:
        options: The options.
        module: The module after the training.
        encoder: The encoder before the training.
        data: The examples of the training.
        cache: The embedding cache.
    """
    corpus, seed = data.examples.name, options.seed
    trained = module.trained_encoder().to(encoder.device)
    raw = Raw().fit(torch.zeros(1, trained.dim))
    methods = [Method(module.name, raw, corpus, seed, trained)]
    if (head := module.head_name) in HEADS:
        return methods
    sentences = data.sample(SAMPLED_ROWS)
    before = make_map(head).fit(cache.rows(encoder, sentences))
    after = make_map(head).fit(cache.rows(trained, sentences))
    return [
        *methods,
        Method(head, before, corpus, seed),
        Method(f"{module.name}+{head}", after, corpus, seed, trained),
    ]
