"""Word space: input embeddings of tokens by frequency, and anisotropy by layer."""

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from flowbert.extras.analysis.drawing import INK, ORDINAL, new_axes, scatter
from flowbert.extras.analysis.isotropy import nearest_neighbours
from flowbert.extras.analysis.sample import Sample
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, mean_cosine, to_rows

if TYPE_CHECKING:  # imported when something is encoded
    from flowbert.encoders import SentenceEncoder

BUCKETS = (0, 100, 500, 5000, 10000)
"""Bounds of the frequency ranks in table 1 of Li et al. (2020)."""
NEIGHBOURS = (3, 5, 7)
POINTS = 200  # of a bucket


def word_points(embeddings: Array) -> pd.DataFrame:
    """Some words of each bucket, evenly spaced by rank, on two right singular vectors of all.

    The vectors are those of the largest singular values of the uncentred embeddings.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019), figure 1. https://arxiv.org/abs/1907.12009

    Args:
        embeddings: Word embeddings ``(W, D)``, the most frequent word first.

    Returns:
        The frame of :func:`words`.
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
        The frame of :func:`buckets`; a bucket without words is left out.

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
    for name, values in (("distance", distances), ("product", products)):
        for k in NEIGHBOURS:
            words[f"{name}_{k}"] = values[:, :k].mean(axis=1)
    return words.groupby("ranks", sort=False).mean().reset_index()


def _ranks(words: int) -> list[str]:
    """Name of the bucket of each word."""
    names: list[str] = []
    for low, high in pairwise(BUCKETS):
        last = min(high, words) - 1
        names += [f"{low} to {last}"] * (last + 1 - low)
    return names


def words(sample: Sample) -> pd.DataFrame:
    """A row per drawn token, see :func:`word_points`.

    ranks is its bucket, rank from 0, the most frequent, x and y its place on the first two singular
    directions.
    """
    embeddings = sample.input_embeddings
    return pd.DataFrame() if embeddings is None else word_points(embeddings)


def draw_words(frame: pd.DataFrame) -> Figure:
    """Tokens on the first two singular directions of the input embeddings."""
    figure, ax = new_axes()
    buckets = frame.groupby("ranks", sort=False)
    for colour, (ranks, rows) in zip(ORDINAL, buckets, strict=False):
        scatter(ax, rows, color=colour, label=f"rank {ranks}")
    ax.set(xlabel="first singular direction", ylabel="second singular direction")
    return figure


def buckets(sample: Sample) -> pd.DataFrame:
    """A row per bucket of frequency ranks (``0 to 99``) of input embeddings.

    norm is their mean norm; the others are the mean distance to and dot product with the 3, 5 and 7
    nearest neighbours. Empty with too few tokens for their neighbours.
    """
    embeddings = sample.input_embeddings
    if embeddings is None or len(embeddings) <= max(NEIGHBOURS):
        return pd.DataFrame()
    return word_buckets(embeddings)


def draw_buckets(frame: pd.DataFrame) -> Figure:
    """Norm of input embeddings and distance to their neighbours by frequency."""
    figure, ax = new_axes()
    ranks, label = frame["ranks"], "distance to 3 neighbours"
    ax.plot(ranks, frame["norm"], "o-", color=INK, label="norm")
    ax.plot(ranks, frame["distance_3"], "s--", color=ORDINAL[2], label=label)
    ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
    ax.set(xlabel="frequency rank", ylabel="mean")
    return figure


_ENCODED = 64  # sentences at once


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
    backbone = encoder.backbone.eval()
    # It keeps truncation and padding as its state, which others share.
    tokenizer = deepcopy(backbone.tokenizer)
    stream = Stream(seed, "sample")
    order = stream.rng().permutation(len(sentences)).tolist()
    batches: list[list[Tensor]] = []
    encoded = 0
    for start in range(0, len(order), _ENCODED):
        features = tokenizer(
            [sentences[i] for i in order[start : start + _ENCODED]],
            truncation=True,
            max_length=encoder.max_length,
            padding=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        ).to(encoder.device)
        real = features.pop("special_tokens_mask") == 0  # padding is special, too
        with torch.no_grad():
            states = backbone(features).hidden_states
        batches.append([state[real].float().cpu() for state in states])
        encoded += int(real.sum())
        if encoded >= 10 * tokens:
            break
    drawn = torch.randperm(encoded, generator=stream.generator())[:tokens]
    layers = zip(*batches, strict=True)
    return [mean_cosine(torch.cat(layer)[drawn]) for layer in layers]


def layers(sample: Sample) -> pd.DataFrame:
    """A row per layer: mean cosine of the vectors of tokens.

    That of the input embeddings of distinct tokens (``input``), and of random tokens in sentences
    at each hidden state (``0``, the embedding layer, to the last block).
    """
    embeddings = sample.input_embeddings
    if sample.encoder is None or embeddings is None:
        return pd.DataFrame()
    texts = sample.corpus or sample.sentences
    cosines = cosine_by_layer(sample.encoder, texts, sample.tokens, sample.seed)
    return pd.DataFrame(
        {
            "layer": ["input", *map(str, range(len(cosines)))],
            "mean_cosine": [mean_cosine(embeddings), *cosines],
        }
    )


def draw_layers(frame: pd.DataFrame) -> Figure:
    """Mean cosine of tokens by layer."""
    figure, ax = new_axes()
    ax.plot(frame["layer"], frame["mean_cosine"], "o-", color=INK)
    ax.set_ylim(min(0, 1.1 * frame["mean_cosine"].min()), 1)
    ax.set(xlabel="hidden state (0: embedding layer)", ylabel="mean cosine of tokens")
    return figure
