"""Encoding of distinct STS-B sentences in float32 and bfloat16, beside sentence-transformers."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.harness import NotMeasured, Product, Row, Setting
from flowbert.data.sts import load_task
from flowbert.encoders import SentenceEncoder
from flowbert.metrics import spearman

COUNT, PEER_BATCH, ROUNDS = 1500, 32, 3  # 32: what sentence-transformers does unless told otherwise
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_AIMS = {"float32": "0.9 of the floor", "bfloat16": "0.6 of the floor, Spearman within 0.1"}


def rows(setting: Setting) -> list[Row]:
    """Seconds for all sentences, in each precision."""
    folder = setting.real_folder("models", "all-MiniLM-L6-v2")
    subset = load_task("STSB", setting.real_folder("data", "senteval")).splits["test"][0]
    pairs = len(subset)
    while len(
        sentences := list(dict.fromkeys((*subset.sentences1[:pairs], *subset.sentences2[:pairs])))
    ) > setting.times(COUNT):
        pairs -= 1
    place = {sentence: row for row, sentence in enumerate(sentences)}
    left, right = ([place[text] for text in side[:pairs]] for side in (subset.sentences1, subset.sentences2))
    found, correlations = [], {}
    for dtype in _DTYPES:
        row, vectors = beside_peer(setting, f"encode, {dtype}", str(folder), sentences, dtype, "cpu")
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        correlations[dtype] = 100 * spearman((unit[left] * unit[right]).sum(axis=1), subset.scores[:pairs])
        found.append(replace(row, aim=_AIMS[dtype], more={"spearman_x_100": correlations[dtype]}))
    if abs(correlations["bfloat16"] - correlations["float32"]) > 0.1:
        raise RuntimeError(f"bfloat16 moves Spearman x 100: {correlations}")
    return found


def beside_peer(
    setting: Setting, name: str, folder: str, sentences: Sequence[str], dtype: str, device: str
) -> tuple[Row, npt.NDArray[np.float32]]:
    """A row without an aim, and our vectors: the same network, sentences and pooling in both libraries.

    Raises:
        NotMeasured: If sentence-transformers is not installed.
        RuntimeError: If the two libraries' vectors differ.
    """
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    encoder = SentenceEncoder.from_pretrained(folder, layers="last", pooling="mean", modules="none", dtype=dtype)
    encoder.to(device)
    kind = _DTYPES[dtype]
    transformer = Transformer(folder, max_seq_length=encoder.max_length, model_kwargs={"dtype": kind})
    peer = SentenceTransformer(modules=[transformer, Pooling(encoder.dim)], device=device)
    few = list(sentences[:20])
    difference = np.abs(peer.encode(few, convert_to_tensor=True).float().cpu().numpy() - encoder.encode(few)).max()
    if difference > {"float32": 1e-4, "bfloat16": 0.1}[dtype]:
        raise RuntimeError(f"the two libraries differ by {difference}: the comparison would be of different things")
    lengths = encoder.lengths(sentences)
    config: Any = encoder.backbone.config
    product = Product(512, config.hidden_size, config.intermediate_size, kind, device)
    best = setting.seconds(
        {
            "ours": lambda: encoder.encode(sentences),
            "peer": lambda: peer.encode(list(sentences), batch_size=PEER_BATCH, convert_to_tensor=True),
            **{f"product {number}": product for number in range(5)},
        },
        ROUNDS,
        device,
    )
    seconds = min(best[f"product {number}"] for number in range(5))
    operations = arithmetic(encoder, lengths)
    row = Row(
        name=name,
        setting=f"{len(sentences)} sentences of {np.mean(lengths):.0f} tokens, {device}",
        ours=best["ours"],
        peer=best["peer"],
        peer_name=f"sentence-transformers, batches of {PEER_BATCH}",
        floor=operations * seconds / product.operations,
        floor_is=f"{operations / 1e9:.1f} GFLOP at {product.operations / seconds / 1e9:.0f} GFLOP/s",
    )
    return row, encoder.encode(sentences)


def arithmetic(encoder: SentenceEncoder, lengths: Sequence[int]) -> float:
    """Floating point operations without padding: the blocks' matrix products and attention over pairs of tokens."""
    weights = sum(
        parameter.numel()
        for name, parameter in encoder.backbone.named_parameters()
        if parameter.ndim == 2 and "embeddings" not in name
    )
    pairs = sum(length * length for length in lengths)
    return 2.0 * weights * sum(lengths) + 4.0 * encoder.num_layers * encoder.dim * pairs
