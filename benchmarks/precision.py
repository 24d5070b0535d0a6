"""Recall@10 of int8 and binary vectors against float32, raw and under maps.

Distinct sentences of a corpus are split into documents and queries. A map is fitted on the documents, and so is the
scale of int8. The true neighbours of a query are the ten documents of largest cosine in float32; recall is the share of
them among ten found by

- int8: cosine of the codes as they are
- restored: cosine of what the codes stand for (``Ranges.restore``), documents and queries
- binary: Hamming distance of the signs
- binary, then float32: the cosine in float32 of the 40 nearest by Hamming distance

    python benchmarks/precision.py --encoder DIR DIR --layers last first_last --corpus FILE
"""

import argparse

import numpy as np
import numpy.typing as npt

from flowbert import SentenceEncoder, make_calibration
from flowbert.data.corpus import read_sentences
from flowbert.seeding import Stream
from flowbert.store.embedding_store import EmbeddingStore
from flowbert.vectors import Ranges, quantize

NEAREST = 10
RESCORED = 40
Floats = npt.NDArray[np.float64]
Found = npt.NDArray[np.int64]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Recall of vectors in fewer bits.")
    parser.add_argument("--encoder", required=True, nargs="+", help="folders or hub names of Hugging Face encoders")
    parser.add_argument("--layers", default=["last"], nargs="+", help="layers of each encoder (default last)")
    parser.add_argument("--corpus", required=True, help="text file, one sentence a line")
    parser.add_argument("--methods", default=["raw", "whitening:shrinkage=0.1", "whitening"], nargs="+")
    parser.add_argument("--documents", default=10_000, type=int)
    parser.add_argument("--queries", default=1_000, type=int)
    parser.add_argument("--store_dir", default=None, help="embedding cache; default: ~/.cache/flowbert")
    return parser.parse_args()


def units(vectors: npt.NDArray[np.generic]) -> Floats:
    """The vectors in length 1."""
    rows = vectors.astype(np.float64)
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def nearest(queries: Floats, documents: Floats, count: int = NEAREST) -> Found:
    """The documents of the largest products with each query, ties in their order."""
    return np.concatenate(
        [np.argsort(-(block @ documents.T), axis=1, kind="stable")[:, :count] for block in np.array_split(queries, 10)]
    )


def recall(true: Found, found: Found) -> float:
    """Share of the true neighbours that were found, in percent."""
    return 100 * float(
        np.mean([len({*a} & {*b}) / NEAREST for a, b in zip(true.tolist(), found.tolist(), strict=True)])
    )


def measured(queries: npt.NDArray[np.float32], documents: npt.NDArray[np.float32]) -> list[float]:
    """Recall of int8, restored, binary, and binary then float32."""
    exact = units(queries), units(documents)
    true = nearest(*exact)
    scale = Ranges.of([documents])
    codes = [quantize(rows, "int8", scale) for rows in (queries, documents)]
    signs = [np.where(rows > 0, 1.0, -1.0) for rows in (queries, documents)]
    first = nearest(signs[0], signs[1], RESCORED)  # the product of signs is D - 2 x the Hamming distance
    cosines = np.einsum("qd,qkd->qk", exact[0], exact[1][first])
    rescored = np.take_along_axis(first, np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST], axis=1)
    found = [
        nearest(units(codes[0]), units(codes[1])),
        nearest(units(scale.restore(codes[0])), units(scale.restore(codes[1]))),
        first[:, :NEAREST],
        rescored,
    ]
    return [recall(true, each) for each in found]


def main() -> None:
    """Print the table."""
    arguments = parse_arguments()
    sentences = list(dict.fromkeys(read_sentences(arguments.corpus).sentences))
    count = arguments.documents + arguments.queries
    if len(sentences) < count:
        raise SystemExit(f"{arguments.corpus}: {len(sentences)} distinct sentences; needed: {count}")
    chosen = [sentences[i] for i in Stream(0, "subset").rng().permutation(len(sentences))[:count]]
    print("| encoder, layers | map | int8 | restored | binary | binary, then float32 |\n|---|---|---:|---:|---:|---:|")
    for path, layers in zip(arguments.encoder, arguments.layers, strict=True):
        encoder = SentenceEncoder.from_pretrained(path, layers=layers)
        vectors = EmbeddingStore(arguments.store_dir, encoder).embeddings(chosen)
        documents, queries = vectors[: arguments.documents], vectors[arguments.documents :]
        for method in arguments.methods:
            fitted = make_calibration(method).fit(documents)
            figures = measured(fitted.transform(queries).numpy(), fitted.transform(documents).numpy())
            cells = " | ".join(f"{figure:.1f}" for figure in figures)
            print(f"| {path.rstrip('/').split('/')[-1]}, {layers} | {method} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
