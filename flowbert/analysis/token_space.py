"""Token vectors of an encoder: its input embeddings by frequency, and how narrow the cone is, layer by layer."""

from collections.abc import Sequence

import torch
from torch import Tensor

from flowbert.analysis.found import WordSpace
from flowbert.analysis.word_space import word_buckets, word_points
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.forward import evaluating
from flowbert.encoders.tokens import special_tokens
from flowbert.metrics import mean_cosine
from flowbert.seeding import Stream

_AT_ONCE = 64  # sentences


def word_space(encoder: SentenceEncoder, sentences: Sequence[str], tokens: int = 2000, seed: int = 0) -> WordSpace:
    """Token vectors of an encoder, its frequencies being those of a corpus; a small part of it passes the encoder."""
    counts = encoder.count_tokens(sentences).without(sorted(special_tokens(encoder.tokenizer))).occurrences
    embeddings: Tensor = encoder.backbone.get_input_embeddings().weight.detach()[: len(counts)]  # type: ignore[operator]
    ranked = counts.argsort(descending=True, stable=True)
    occurring = embeddings[ranked[counts[ranked] > 0].to(embeddings.device)]
    buckets = word_buckets(embeddings, counts)
    by_layer = cosine_by_layer(encoder, sentences, tokens, seed)
    return WordSpace(buckets, mean_cosine(occurring), word_points(occurring, buckets), by_layer)


def cosine_by_layer(
    encoder: SentenceEncoder, sentences: Sequence[str], tokens: int = 2000, seed: int = 0
) -> list[float]:
    """Mean cosine of vectors of random tokens in their sentences, for each hidden state: L + 1 numbers.

    0 without anisotropy. Special tokens take no part.

    References:
        How Contextual are Contextualized Word Representations? (Ethayarajh, 2019). https://arxiv.org/abs/1909.00512

    Args:
        encoder: The encoder.
        sentences: Sentences to draw from; those that are read hold about ten times as many tokens as are drawn.
        tokens: How many to draw.
        seed: Seed of the draw.

    Example:
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample")
        >>> len(cosine_by_layer(encoder, ["a dog runs", "the cat sleeps"]))
        5
    """
    special = torch.tensor(sorted(special_tokens(encoder.tokenizer)), device=encoder.device)
    stream = Stream(seed, "sample")
    drawn = stream.rng().permutation(len(sentences))
    layers: list[list[Tensor]] = [[] for _ in range(encoder.num_layers + 1)]
    found = 0
    for start in range(0, len(drawn), _AT_ONCE):
        if found >= 10 * tokens:
            break
        batch = [sentences[i] for i in drawn[start : start + _AT_ONCE].tolist()]
        features = {name: value.to(encoder.device) for name, value in encoder.tokenize(batch).items()}
        with evaluating(encoder):  # one that is trained would drop out
            states = encoder.backbone(**features, output_hidden_states=True, return_dict=True).hidden_states
        real = features["attention_mask"].bool() & ~torch.isin(features["input_ids"], special)
        for layer, state in zip(layers, states, strict=True):
            layer.append(state[real].float().cpu())
        found += int(real.sum())
    chosen = torch.randperm(found, generator=stream.generator())[:tokens]
    return [mean_cosine(torch.cat(layer)[chosen]) for layer in layers]
