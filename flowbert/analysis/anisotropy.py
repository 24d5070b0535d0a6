"""Anisotropy of token vectors layer by layer, and its plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pandas as pd
import torch
from torch import Tensor

from flowbert.analysis.drawing import INK, Plot
from flowbert.analysis.measure import MEASURES, Measure
from flowbert.analysis.sample import Sample
from flowbert.seeding import Stream
from flowbert.tasks.measures import mean_cosine

if (
    TYPE_CHECKING
):  # matplotlib is imported when something is drawn, transformers takes seconds
    from matplotlib.axes import Axes

    from flowbert.encoders import SentenceEncoder

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
    backbone, tokenizer = encoder.backbone.eval(), encoder.backbone.tokenizer
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


def draw_layers(ax: "Axes", frame: pd.DataFrame) -> None:
    """Mean cosine of tokens by layer.

    Args:
        ax: Axes.
        frame: Columns layer and mean_cosine.
    """
    ax.plot(frame["layer"], frame["mean_cosine"], "o-", color=INK)
    ax.set_ylim(min(0, 1.1 * frame["mean_cosine"].min()), 1)
    ax.set(xlabel="hidden state (0: embedding layer)", ylabel="mean cosine")


@MEASURES.register("layers")
class LayerAnisotropy(Measure):
    """A row per layer: mean cosine of the vectors of tokens.

    That of the input embeddings of distinct tokens (``input``), and of random tokens in sentences
    at each hidden state (``0``, the embedding layer, to the last block).
    """

    columns: ClassVar = {"layer": str, "mean_cosine": float}
    section: ClassVar = "Word space"
    plots: ClassVar = {
        "layers": Plot(
            draw_layers,
            "Anisotropy by layer",
            "Mean cosine of random tokens in sentences (Ethayarajh, 2019); 0 if isotropic. Input: "
            "distinct tokens before the first layer.",
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The layers of the sample's encoder."""
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
