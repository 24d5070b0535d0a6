"""How many sentences whitening needs: Spearman on development splits by number of distinct sentences and shrinkage.

Whitening is fitted on random subsets of N distinct sentences, N in multiples of the embedding size D, and measured on
the development splits of STSB and SICKR alone, each with subsets of its own sentences and of a corpus. Prints one
Markdown table per encoder and layers: the mean over the four and over the seeds.

    python benchmarks/whitening_sample_size.py --encoder DIR DIR --layers first_last last --senteval DIR --corpus FILE
"""

import argparse
import random
import statistics
import warnings
from collections.abc import Sequence

import torch

from flowbert import SentenceEncoder, Whitening, load_task
from flowbert.data.corpus import read_sentences
from flowbert.errors import FlowbertWarning
from flowbert.store.embedding_store import EmbeddingStore
from flowbert.tasks import PairEmbeddings, embed_pairs, evaluate_pairs

TASKS = ("STSB", "SICKR")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Whitening by number of sentences and shrinkage.")
    parser.add_argument("--encoder", required=True, nargs="+", help="folders or hub names of Hugging Face encoders")
    parser.add_argument("--layers", default=["first_last"], nargs="+", help="layers to average (default first_last)")
    parser.add_argument("--senteval", required=True, help="folder laid out as SentEval's data/downstream")
    parser.add_argument("--corpus", required=True, help="text file, one sentence a line")
    parser.add_argument("--sizes", default=[0.5, 1, 1.5, 2, 3, 5, 10, 15], nargs="+", type=float, help="N / D")
    parser.add_argument("--shrinkage", default=[0.0, 0.05, 0.1, 0.3], nargs="+", type=float)
    parser.add_argument("--seeds", default=3, type=int, help="random subsets of each size (default 3)")
    parser.add_argument("--store_dir", default=None, help="embedding cache; default: ~/.cache/flowbert")
    return parser.parse_args()


def figures(arguments: argparse.Namespace, path: str, layers: str) -> list[str]:
    """Lines of the table of one encoder."""
    encoder = SentenceEncoder.from_pretrained(path, layers=layers)
    store = EmbeddingStore(arguments.store_dir, encoder)
    tasks = [load_task(name, arguments.senteval) for name in TASKS]
    largest = round(max(arguments.sizes) * encoder.dim)
    corpus = list(dict.fromkeys(read_sentences(arguments.corpus).sentences))
    corpus = random.Random(0).sample(corpus, min(2 * largest, len(corpus)))
    own = [list(dict.fromkeys(task.sentences())) for task in tasks]
    for name, pool in zip((*TASKS, arguments.corpus), (*own, corpus), strict=True):
        if len(pool) < largest:  # a mean over other pools for some sizes would compare nothing
            raise SystemExit(f"{name}: {len(pool)} distinct sentences; needed: {largest}, or smaller --sizes")
    store.add([*corpus, *(sentence for each in own for sentence in each)])
    dev = [embed_pairs(task, "dev", store.embeddings) for task in tasks]
    lines = []
    for size in arguments.sizes:
        count = round(size * encoder.dim)
        cells = []
        for shrinkage in arguments.shrinkage:
            found = [
                one(store, pool, count, seed, shrinkage, pairs)
                for pairs, sentences in zip(dev, own, strict=True)
                for pool in (sentences, corpus)
                for seed in range(arguments.seeds)
            ]
            cells.append(f"{100 * statistics.fmean(found):.2f}")
        lines.append(f"| {size:g} D | " + " | ".join(cells) + " |")
    raw = statistics.fmean(100 * evaluate_pairs(pairs).all for pairs in dev)
    return [*lines, f"\nraw: {raw:.2f}\n"]


def one(
    store: EmbeddingStore, pool: Sequence[str], count: int, seed: int, shrinkage: float, pairs: PairEmbeddings
) -> float:
    """Spearman on a development split of whitening fitted on a random subset."""
    rows = torch.as_tensor(store.embeddings(random.Random(seed).sample(pool, count)))
    return evaluate_pairs(pairs, Whitening(shrinkage=shrinkage).fit(rows).transform, uniformity_limit=2).all


def main() -> None:
    """Print a table per encoder and layers."""
    warnings.simplefilter("ignore", FlowbertWarning)  # of the rank: that is what is measured
    arguments = parse_arguments()
    for path in arguments.encoder:
        for layers in arguments.layers:
            print(f"{path}, {layers}\n\n| sentences | " + " | ".join(f"s = {s:g}" for s in arguments.shrinkage) + " |")
            print("|---|" + "---:|" * len(arguments.shrinkage))
            print("\n".join(figures(arguments, path, layers)), flush=True)


if __name__ == "__main__":
    main()
