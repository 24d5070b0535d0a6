"""Encoding on a GPU: BERT-base with random weights, beside sentence-transformers."""

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks.encoding import beside_peer
from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder

COUNT = 20_000


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds for all sentences, in each precision; no download."""
    if not torch.cuda.is_available():
        raise NotMeasured("no GPU")
    tokenizer: Any = SentenceEncoder("builtin-sample").backbone.tokenizer
    texts = sample_corpus()
    sentences = []
    for number in range(setting.times(COUNT, 100)):
        # Of many lengths: one to four sentences of the sample, joined.
        parts = [texts[(number + 7 * k) % len(texts)] for k in range(1 + number % 4)]
        sentences.append(" ".join(parts))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        BertModel(BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for dtype in ("float32", "bfloat16"):
            yield beside_peer(setting, folder, sentences, dtype, "cuda")
