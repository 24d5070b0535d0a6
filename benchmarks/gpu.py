"""On a GPU: the flow's step, encoding and the SimCSE step, each beside its peer; no download.

The encoders have random weights: BERT-base, a BERT of 6 layers and 384 dimensions (the size of
all-MiniLM-L6-v2), and a LLaMA of 16 blocks and 2,048 dimensions. Times of
an encoding include the tokenizer.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

from benchmarks import flow_step, simcse
from benchmarks.encoding import beside_peer, beside_transformers
from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone

COUNT, OF_DECODER = 10_000, 4_000
PRECISIONS = ("float32", "bfloat16")
NETWORKS: dict[str, dict[str, Any]] = {
    "BERT-base": {},
    "6 layers, D = 384": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of each, in each precision."""
    if not torch.cuda.is_available():
        raise NotMeasured("no GPU")
    yield from flow_step.rows(setting, "cuda")
    tokenizer: Any = SentenceEncoder("builtin-sample").backbone.tokenizer
    sentences = joined(setting.times(COUNT, 200))
    torch.manual_seed(0)
    for name, sizes in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = BertConfig(vocab_size=len(tokenizer), **sizes)
            BertModel(config).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            for row in of_an_encoder(setting, folder, sentences):
                yield replace(row, setting=f"{name}, {row.setting}")
    yield from of_a_decoder(setting, tokenizer, sentences)


def of_an_encoder(
    setting: Setting, folder: str, sentences: Sequence[str]
) -> Iterator[Row]:
    """Encoding and training, in each precision."""
    for dtype in PRECISIONS:
        yield beside_peer(setting, folder, sentences, dtype, "cuda")
    for dtype in PRECISIONS:
        yield simcse.step_row(setting, folder, sentences, dtype, "cuda")


def joined(count: int) -> list[str]:
    """Texts of many lengths: one to four sentences of the sample."""
    texts = sample_corpus()
    parts = [
        [texts[(n + 7 * k) % len(texts)] for k in range(1 + n % 4)]
        for n in range(count)
    ]
    return [" ".join(each) for each in parts]


def of_a_decoder(
    setting: Setting, tokenizer: Any, sentences: Sequence[str]
) -> Iterator[Row]:
    """A template and a middle layer."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=16,
        num_attention_heads=16,
    )
    network: Any = LlamaModel(config)
    network.eval().to("cuda", torch.bfloat16)
    encoder = SentenceEncoder(Backbone(network, tokenizer), layers=8, pooling="mean")
    prompted = encoder.read(layers="last", pooling="last_token", template="prompteol")
    for each in (encoder, prompted):
        few = sentences[: setting.times(OF_DECODER, 100)]
        yield beside_transformers(
            setting, "a decoder of 16 blocks, bfloat16", each, few
        )
