"""Encoding on a GPU: an encoder of BERT-base's shape with random weights, beside sentence-transformers.

It needs no download. On one GPU it says which share of the measured matrix rate is reached.
"""

import tempfile
from dataclasses import replace

import torch
from transformers import BertConfig, BertModel

from benchmarks.encoding import beside_peer
from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.data.sts import load_task
from flowbert.encoders import SentenceEncoder

COUNT = 20_000
_DTYPES = ("float32", "bfloat16")


def rows(setting: Setting) -> list[Row]:
    """Seconds for all sentences, in each precision.

    Raises:
        NotMeasured: Without a GPU.
    """
    if not torch.cuda.is_available():
        raise NotMeasured("no GPU")
    config = BertConfig()
    return encode_random(setting, config, "cuda", setting.times(COUNT, 100))


def encode_random(setting: Setting, config: BertConfig, device: str, count: int) -> list[Row]:
    """Encode sentences of the built-in sample with random weights of this shape, on any device."""
    sample = SentenceEncoder.from_pretrained("builtin-sample")
    config.vocab_size = len(sample.tokenizer)
    texts = list(dict.fromkeys(load_task("SAMPLE").sentences()))
    # Distinct sentences of many lengths: one to four of the sample's, joined.
    sentences = [" ".join(texts[(n + k * 7) % len(texts)] for k in range(1 + n % 4)) for n in range(count)]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        sample.tokenizer.save_pretrained(folder)
        rows = [
            beside_peer(setting, f"encode on a GPU, {dtype}", folder, sentences, dtype, device)[0] for dtype in _DTYPES
        ]
    return [replace(row, aim="0.5 of the floor, 2 x the peer") for row in rows]
