"""Token vectors of an encoder: input embeddings by frequency, and anisotropy layer by layer."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from flowbert.analysis.lengths import sentence_lengths, tokens_of
from flowbert.analysis.neighbours import nearest_neighbours
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, mean_cosine, to_rows

if TYPE_CHECKING:  # transformers takes seconds to import
    from flowbert.encoders import SentenceEncoder

BUCKETS = (0, 100, 500, 5000, 10000)
"""Bounds of the frequency ranks in table 1 of Li et al. (2020)."""
NEIGHBOURS = (3, 5, 7)
POINTS = 200  # of a bucket
BATCH_SIZE = 64


def word_buckets(embeddings: Array) -> pd.DataFrame:
    """Norms and neighbours of word embeddings by frequency rank: table 1 of the paper.

    Neighbours are the nearest by Euclidean distance among all words below the last bound; the
    paper does not say among which.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 1.
        https://arxiv.org/abs/2011.05864

    Args:
        embeddings: Word embeddings ``(W, D)``, the most frequent word first, W at least 8.

    Returns:
        The frame ``buckets`` of :class:`~flowbert.analysis.Analysis`; a bucket without words is
        left out.

    Example:
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> word_buckets(x)["ranks"].tolist()
        ['0 to 99', '100 to 299']
    """
    rows = to_rows(embeddings).cpu()[: BUCKETS[-1]]
    distances, neighbours = nearest_neighbours(rows, max(NEIGHBOURS), "euclidean")
    columns = [(rows * rows[column]).sum(dim=1) for column in neighbours.T]
    products = torch.stack(columns, dim=1).numpy()
    words = pd.DataFrame({"ranks": _ranks(len(rows)), "norm": rows.norm(dim=1)})
    for k in NEIGHBOURS:
        words[f"distance_{k}"] = distances[:, :k].mean(axis=1)
        words[f"product_{k}"] = products[:, :k].mean(axis=1)
    return words.groupby("ranks", sort=False).mean().reset_index()


def word_points(embeddings: Array) -> pd.DataFrame:
    """Some words of each bucket, evenly spaced by rank, on two right singular vectors of all.

    The vectors are those of the largest singular values of the uncentred embeddings.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019), figure 1. https://arxiv.org/abs/1907.12009

    Args:
        embeddings: Word embeddings ``(W, D)``, the most frequent word first.

    Returns:
        The frame ``words`` of :class:`~flowbert.analysis.Analysis`.
    """
    rows = to_rows(embeddings)
    directions = torch.linalg.eigh(rows.T @ rows).eigenvectors[:, -2:].flip(1)
    x, y = (rows @ directions).cpu()[: BUCKETS[-1]].T
    words = pd.DataFrame(
        {"ranks": _ranks(len(x)), "rank": range(len(x)), "x": x, "y": y}
    )
    points = [
        bucket[:: math.ceil(len(bucket) / POINTS)]
        for _, bucket in words.groupby("ranks", sort=False)
    ]
    return pd.concat(points, ignore_index=True)


def _ranks(words: int) -> list[str]:
    """Name of the bucket of each word."""
    names: list[str] = []
    for low, high in pairwise(BUCKETS):
        last = min(high, words) - 1
        names += [f"{low} to {last}"] * (last + 1 - low)
    return names


def cosine_by_layer(
    encoder: "SentenceEncoder",
    sentences: Sequence[str],
    tokens: int = 2000,
    seed: int = 0,
) -> list[float]:
    """Mean cosine of vectors of random tokens in their sentences, for each hidden state.

    0 without anisotropy. Special tokens are left out.

    References:
        How Contextual are Contextualized Word Representations? (Ethayarajh, 2019).
        https://arxiv.org/abs/1909.00512

    Args:
        encoder: The encoder, which is put into evaluation mode; its layers and pooling play no
            role.
        sentences: Sentences to sample from; about ten times as many tokens are encoded as drawn.
        tokens: Number of tokens to draw.
        seed: Seed of the draws.

    Returns:
        One mean for the embedding layer and for each block.
    """
    network, tokenizer = encoder.backbone.network.eval(), encoder.backbone.tokenizer
    stream = Stream(seed, "sample")
    order = stream.rng().permutation(len(sentences)).tolist()
    batches: list[list[Tensor]] = []
    encoded = 0
    for start in range(0, len(order), BATCH_SIZE):
        features = tokenizer(
            [sentences[i] for i in order[start : start + BATCH_SIZE]],
            truncation=True,
            max_length=encoder.max_length,
            padding=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        ).to(encoder.device)
        real = features.pop("special_tokens_mask") == 0  # padding is special, too
        with torch.no_grad():
            states = network(**features, output_hidden_states=True).hidden_states
        batches.append([state[real].float().cpu() for state in states])
        encoded += int(real.sum())
        if encoded >= 10 * tokens:
            break
    drawn = torch.randperm(encoded, generator=stream.generator())[:tokens]
    layers = zip(*batches, strict=True)
    return [mean_cosine(torch.cat(layer)[drawn]) for layer in layers]


def token_frames(
    encoder: "SentenceEncoder",
    sentences: Sequence[str],
    corpus: Sequence[str],
    tokens: int = 2000,
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Lengths of sentences in tokens, and the word space with the frequencies of a corpus.

    Args:
        encoder: The encoder.
        sentences: The sentences that are measured.
        corpus: Sentences whose tokens are counted, equally frequent ones ranked by id; some of
            them are encoded, see :func:`cosine_by_layer`.
        tokens: Number of tokens to draw for the anisotropy by layer.
        seed: Seed of the draws.

    Returns:
        The arguments ``lengths`` and ``**words`` of
        :func:`~flowbert.analysis.vectors.analyze_vectors`.
    """
    counts = Counter(chain.from_iterable(tokens_of(encoder, corpus)))
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    network: Any = encoder.backbone.network
    embeddings = network.get_input_embeddings().weight.detach()[ranked]
    cosines = cosine_by_layer(encoder, corpus, tokens, seed)
    layers = {
        "layer": ["input", *map(str, range(len(cosines)))],
        "mean_cosine": [mean_cosine(embeddings), *cosines],
    }
    return {
        "lengths": sentence_lengths(tokens_of(encoder, sentences), counts, "tokens"),
        "buckets": word_buckets(embeddings),
        "words": word_points(embeddings),
        "layers": pd.DataFrame(layers),
    }
