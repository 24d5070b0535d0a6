"""Encoding of distinct STS-B sentences in float32 and bfloat16, beside sentence-transformers.

Rows of a lower layer and of templates are beside a pass of transformers with all hidden states, in
batches of equal size sorted by length; their floor is not computed.

Floor: two operations for each token and weight of a matrix but embeddings, and the two products of
the attention within each sentence; weights and a row of the embeddings for each token are read
once, vectors written once in float32. GELU, softmax and layer norm are not counted.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from benchmarks.harness import NotMeasured, Row, Setting, bfloat16_is_fast
from flowbert.data.scored_pairs import load_sts
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.checkpoint import in_dtype
from flowbert.encoders.template import name_template

COUNT, ROUNDS = 1500, 3
PEER_BATCH = {"cpu": 32, "cuda": 256}  # 32 is the default, 256 keeps a GPU busy
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest difference from the peer's vectors, as a share of the largest number of them: above
rounding, below another layer or pooling."""


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds for all sentences, in each precision that the processor has."""
    folder = setting.real_path("models", "all-MiniLM-L6-v2")
    data = load_sts("STSB", str(setting.real_path("data", "senteval")))
    distinct = list(dict.fromkeys(data.sentences(["test"])))
    sentences = distinct[: setting.times(COUNT)]
    yield beside_peer(setting, str(folder), sentences, "float32")
    bert = SentenceEncoder(str(folder), layers=0, pooling="mean")
    yield beside_transformers(setting, "all-MiniLM-L6-v2", bert, sentences)
    decoder = Backbone(random_decoder(bert.backbone.tokenizer), bert.backbone.tokenizer)
    encoder = SentenceEncoder(decoder, layers=1, pooling="mean")
    yield beside_transformers(setting, "a decoder of 12 blocks", encoder, sentences)
    for template in ("prompteol", "knowledge"):
        prompted = encoder.read(layers="last", pooling="last_token", template=template)
        yield beside_transformers(
            setting, "a decoder of 12 blocks", prompted, sentences
        )
    if not bfloat16_is_fast():
        raise NotMeasured("bfloat16 is emulated by this processor")
    yield beside_peer(setting, str(folder), sentences, "bfloat16")


def beside_peer(
    setting: Setting,
    folder: str,
    sentences: Sequence[str],
    dtype: str,
    device: str = "cpu",
) -> Row:
    """The same network, sentences and pooling in both libraries.

    Raises:
        NotMeasured: If sentence-transformers is not installed.
        RuntimeError: If the vectors of the two libraries differ.
    """
    if not find_spec("sentence_transformers"):
        raise NotMeasured("needs sentence-transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    encoder = SentenceEncoder(folder, layers="last", pooling="mean", dtype=dtype)
    encoder.to(device)
    transformer = Transformer(
        folder,
        max_seq_length=encoder.max_length,
        model_kwargs=in_dtype(getattr(torch, dtype)),
    )
    modules = [transformer, Pooling(encoder.dim)]
    peer = SentenceTransformer(modules=modules, device=device)
    few = list(sentences[:20])
    theirs = peer.encode(few, convert_to_tensor=True).float().cpu().numpy()
    difference = np.abs(theirs - encoder.encode(few)).max() / np.abs(theirs).max()
    if difference > TOLERANCE[dtype]:
        raise RuntimeError(f"the vectors of the two libraries differ by {difference}")
    batch = PEER_BATCH[device]
    best = setting.seconds(
        {
            "ours": lambda: encoder.encode(sentences),
            "peer": lambda: peer.encode(
                list(sentences), batch_size=batch, convert_to_tensor=True
            ),
        },
        ROUNDS,
    )
    lengths = encoder.lengths(sentences)
    return Row(
        f"encode, {dtype}",
        f"{len(sentences)} sentences of {np.mean(lengths):.0f} tokens, {device}",
        best["ours"],
        best["peer"],
        f"sentence-transformers, batches of {batch}",
        setting.floor(
            arithmetic(encoder, lengths), traffic(encoder, lengths), dtype, device
        ),
    )


def random_decoder(tokenizer: Any) -> torch.nn.Module:
    """A LLaMA of 12 blocks and 384 dimensions."""
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=12,
        num_attention_heads=6,
    )
    network: torch.nn.Module = LlamaModel(config)
    return network.eval()


def beside_transformers(
    setting: Setting, name: str, encoder: SentenceEncoder, sentences: Sequence[str]
) -> Row:
    """One layer of an encoder, beside passes with all layers and all tokens.

    Raises:
        RuntimeError: If the vectors of the two differ.
    """
    (layer,) = encoder.layers
    network: Any = encoder.backbone.network
    ordered = sorted(sentences, key=len, reverse=True)
    batch = PEER_BATCH[network.device.type]

    def whole_pass() -> torch.Tensor:
        vectors = []
        for start in range(0, len(ordered), batch):
            features = encoder.tokenize(ordered[start : start + batch])
            features = {name: x.to(network.device) for name, x in features.items()}
            inputs = {name: features[name] for name in ("input_ids", "attention_mask")}
            with torch.no_grad():
                output = network(**inputs, output_hidden_states=True)
            vectors.append(encoder.pool(output, features))
        return torch.cat(vectors).float().cpu()

    theirs = whole_pass().numpy()
    difference = np.abs(theirs - encoder.encode(ordered)).max() / np.abs(theirs).max()
    if difference > TOLERANCE[str(encoder.backbone.dtype).removeprefix("torch.")]:
        raise RuntimeError(f"the vectors of the two passes differ by {difference}")
    best = setting.seconds(
        {"ours": lambda: encoder.encode(ordered), "peer": whole_pass}, ROUNDS
    )
    template = name_template(encoder.template, encoder.backbone.tokenizer)
    return Row(
        f"encode, {f'template {template}' if template else f'layer {layer}'}",
        f"{name}, {len(ordered)} sentences, {network.device.type}",
        best["ours"],
        best["peer"],
        f"all layers and tokens by transformers, batches of {batch}",
    )


def arithmetic(encoder: Any, lengths: Sequence[int]) -> float:
    """Floating point operations without padding: weights, and attention over pairs of tokens."""
    pairs = sum(length * length for length in lengths)
    products = 2 * _weights(encoder) * sum(lengths)
    return float(products + 4 * encoder.num_layers * encoder.dim * pairs)


def traffic(encoder: Any, lengths: Sequence[int]) -> float:
    """Bytes of weights, of a row of the embeddings for each token, and of the vectors."""
    numbers = _weights(encoder) + encoder.dim * sum(lengths)
    vectors = 4 * encoder.dim * len(lengths)
    return float(encoder.backbone.dtype.itemsize * numbers + vectors)


def _weights(encoder: Any) -> int:
    """Numbers in the matrices of the blocks."""
    return sum(
        parameter.numel()
        for name, parameter in encoder.backbone.named_parameters()
        if parameter.ndim == 2 and "embeddings" not in name
    )
