"""Word space: input embeddings of tokens by frequency, and anisotropy by layer."""

import math
from itertools import pairwise

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from flowbert.encoders.pooling import special_tokens
from flowbert.extras.analysis.drawing import INK, ORDINAL, new_axes, scatter
from flowbert.extras.analysis.neighbours import nearest_neighbours
from flowbert.extras.analysis.sample import Sample
from flowbert.seeding import Stream
from flowbert.tasks.measures import mean_cosine, to_rows

BUCKETS = (0, 100, 500, 5000, 10000)
"""Bounds of the frequency ranks in table 1 of Li et al. (2020)."""
NEIGHBOURS = (3, 5, 7)
POINTS = 200  # of a bucket
_ENCODED = 64  # sentences at once


def _ranks(words: int) -> list[str]:
    """Name of the bucket of each word."""
    names: list[str] = []
    for low, high in pairwise(BUCKETS):
        last = min(high, words) - 1
        names += [f"{low} to {last}"] * (last + 1 - low)
    return names


def words(sample: Sample) -> pd.DataFrame:
    """A row per drawn token: some of each bucket, evenly spaced by rank.

    ``ranks`` is the bucket, ``rank`` counts from 0, the most frequent token; ``x`` and ``y`` are
    the coordinates along the two strongest right singular vectors of the uncentred input
    embeddings.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019), figure 1. https://arxiv.org/abs/1907.12009
    """
    if sample.input_embeddings is None:
        return pd.DataFrame()
    rows = to_rows(sample.input_embeddings)
    directions = torch.linalg.eigh(rows.T @ rows).eigenvectors[:, -2:].flip(1)
    x, y = (rows @ directions).cpu()[: BUCKETS[-1]].T
    ranked = {"ranks": _ranks(len(x)), "rank": range(len(x)), "x": x, "y": y}
    points = [
        bucket[:: math.ceil(len(bucket) / POINTS)]
        for _, bucket in pd.DataFrame(ranked).groupby("ranks", sort=False)
    ]
    return pd.concat(points, ignore_index=True)


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

    ``norm`` is the mean norm; the other columns are the mean distance to and dot product with the
    3, 5 and 7 nearest neighbours by Euclidean distance. Neighbours are searched among all words
    below the last bound, which the paper leaves open. Empty if there are too few tokens.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 1.
        https://arxiv.org/abs/2011.05864
    """
    embeddings = sample.input_embeddings
    if embeddings is None or len(embeddings) <= max(NEIGHBOURS):
        return pd.DataFrame()
    rows = to_rows(embeddings).cpu()[: BUCKETS[-1]]
    distances, neighbours = nearest_neighbours(rows, max(NEIGHBOURS), "euclidean")
    products = [(rows * rows[column]).sum(dim=1) for column in neighbours.T]
    measured = {"distance": distances, "product": torch.stack(products, dim=1).numpy()}
    frame = pd.DataFrame({"ranks": _ranks(len(rows)), "norm": rows.norm(dim=1)})
    for name, values in measured.items():
        for k in NEIGHBOURS:
            frame[f"{name}_{k}"] = values[:, :k].mean(axis=1)
    return frame.groupby("ranks", sort=False).mean().reset_index()


def layers(sample: Sample) -> pd.DataFrame:
    """A row per layer: mean cosine of the vectors of tokens, 0 without anisotropy.

    ``input`` has the input embeddings of distinct tokens; ``0``, the embedding layer, to the last
    block have random tokens in sentences. About ten times as many tokens are encoded as are drawn;
    special tokens are left out.

    References:
        How Contextual are Contextualized Word Representations? (Ethayarajh, 2019).
        https://arxiv.org/abs/1909.00512
    """
    if sample.encoder is None or sample.input_embeddings is None:
        return pd.DataFrame()
    encoder = sample.encoder.read(template="", sink_token="")
    special = torch.tensor(special_tokens(encoder.backbone.tokenizer))
    texts, stream = sample.corpus or sample.sentences, Stream(sample.seed, "sample")
    order = stream.rng().permutation(len(texts)).tolist()
    batches: list[list[Tensor]] = []
    encoded = 0
    for start in range(0, len(order), _ENCODED):
        batch = [texts[i] for i in order[start : start + _ENCODED]]
        features = encoder.tokenize(batch)
        of_sentence = ~torch.isin(features["input_ids"], special)
        of_sentence &= features["attention_mask"] == 1
        moved = {name: values.to(encoder.device) for name, values in features.items()}
        with encoder.backbone.evaluating():
            states = encoder.backbone(moved).hidden_states
        batches.append([state.cpu()[of_sentence].float() for state in states])
        encoded += int(of_sentence.sum())
        if encoded >= 10 * sample.tokens:
            break
    drawn = torch.randperm(encoded, generator=stream.generator())[: sample.tokens]
    by_layer = zip(*batches, strict=True)
    cosines = [mean_cosine(torch.cat(layer)[drawn]) for layer in by_layer]
    return pd.DataFrame(
        {
            "layer": ["input", *map(str, range(len(cosines)))],
            "mean_cosine": [mean_cosine(sample.input_embeddings), *cosines],
        }
    )


def draw_layers(frame: pd.DataFrame) -> Figure:
    """Mean cosine of tokens by layer."""
    figure, ax = new_axes()
    ax.plot(frame["layer"], frame["mean_cosine"], "o-", color=INK)
    ax.set_ylim(min(0, 1.1 * frame["mean_cosine"].min()), 1)
    ax.set(xlabel="hidden state (0: embedding layer)", ylabel="mean cosine of tokens")
    return figure
