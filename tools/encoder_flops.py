"""How much arithmetic do the rows of ``reproduce`` take? The table of docs/papers.md.

``python -m tools.encoder_flops --encoder minilm-mlm --senteval DIR --nli snli-dev.jsonl`` counts
tokens of distinct sentences with the encoder's tokenizer, and FLOPs of its network and of
BERT-base's: ``24 T d^2 + 4 T^2 d`` for each layer and sentence of T tokens (the products of
attention and of a feed-forward layer of 4d, two operations for each multiplication with addition).
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from transformers import AutoConfig, AutoTokenizer

from flowbert.arrays import Floats
from flowbert.data.nli import load_nli
from flowbert.extras.papers.published import PUBLISHED_TASKS
from flowbert.tasks import load_tasks

BERT_BASE = (12, 768)
MAX_LENGTH = 64
"""Length of the published rows, except those from Sentence-BERT."""


def encoder_flops(lengths: Floats, layers: int, dim: int) -> float:
    """FLOPs of sentences of so many tokens ``(N,)`` in a BERT."""
    return float(layers * np.sum(24 * lengths * dim**2 + 4 * lengths**2 * dim))


def token_counts(
    tokenizer: Any, sentences: Iterable[str], max_length: int = MAX_LENGTH
) -> Floats:
    """Tokens of each distinct sentence, special ones included, ``(N,)``."""
    distinct = list(dict.fromkeys(sentences))
    encoded = tokenizer(distinct, truncation=True, max_length=max_length)
    return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.float64)


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", required=True, help="folder of an encoder")
    parser.add_argument("--senteval", required=True)
    parser.add_argument("--nli", required=True, help="a sample of the NLI pairs")
    options = parser.parse_args(words)
    tokenizer: Any = AutoTokenizer.from_pretrained(options.encoder)
    config = AutoConfig.from_pretrained(options.encoder)
    sizes = (config.num_hidden_layers, config.hidden_size)
    tasks = load_tasks(list(PUBLISHED_TASKS), options.senteval)
    nli = load_nli(options.nli)
    target = [text for task in tasks for text in task.corpus("target").sentences]
    passes = {
        "test sentences": [text for task in tasks for text in task.sentences],
        "target sentences": target,
        "NLI sample": [*nli.premises, *nli.hypotheses],
    }
    rows = []
    for name, sentences in passes.items():
        lengths = token_counts(tokenizer, sentences)
        rows.append(
            {
                "sentences": name,
                "occurrences": len(sentences),
                "distinct": len(lengths),
                "tokens": int(lengths.sum()),
                "TFLOP": encoder_flops(lengths, *sizes) / 1e12,
                "BERT-base TFLOP": encoder_flops(lengths, *BERT_BASE) / 1e12,
            }
        )
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
