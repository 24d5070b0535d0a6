"""Vector search with FAISS: quality, memory and latency of raw, cut and whitened vectors, by size and index.

Documents are captions and the premises of entailed hypotheses; a hypothesis is a query, and its premises are what it
should find. That is a human label, not the neighbourhood in some space; a caption that a hypothesis describes as well,
but that nobody labelled, counts as wrong, for every row alike. Whitening is fitted on the documents. Prints one
Markdown table per encoder.

    python benchmarks/vector_search.py --encoder DIR DIR --corpus captions.txt --nli snli-test.jsonl
"""

import argparse
import random
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from flowbert import SentenceEncoder, Whitening
from flowbert.data.corpus import read_sentences
from flowbert.data.nli import load_nli
from flowbert.errors import FlowbertWarning
from flowbert.metrics import hubness
from flowbert.store.embedding_store import EmbeddingStore

K = 10
TIMED, ROUNDS = 200, 3  # queries whose latency is measured, one by one
HUBNESS_OVER = 10_000  # documents
Vectors = NDArray[np.float32]
Relevant = list[set[int]]
INDICES: dict[str, Any] = {  # by name: from the number of dimensions to an empty index
    "flat": faiss.IndexFlatIP,
    "8 bit": lambda dim: faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT),
    "HNSW": lambda dim: faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT),
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Vector search by map, size and index.")
    parser.add_argument("--encoder", required=True, nargs="+", help="folders or hub names of Hugging Face encoders")
    parser.add_argument("--layers", default=None, help="layers to average (default: as trained, else last)")
    parser.add_argument("--corpus", required=True, help="text file of captions, one a line")
    parser.add_argument("--nli", required=True, help="file of NLI pairs whose premises are captions")
    parser.add_argument("--captions", default=50_000, type=int, help="so many random captions (default 50000)")
    parser.add_argument("--sizes", default=[256, 128, 64], nargs="+", type=int, help="sizes beside the full one")
    parser.add_argument("--store_dir", default=None, help="embedding cache; default: ~/.cache/flowbert")
    return parser.parse_args()


def read(arguments: argparse.Namespace) -> tuple[list[str], list[str], Relevant]:
    """Documents, queries, and the numbers of the documents that each query should find."""
    captions = list(dict.fromkeys(read_sentences(arguments.corpus).sentences))
    captions = random.Random(0).sample(captions, min(arguments.captions, len(captions)))
    pairs = load_nli(arguments.nli)
    entailed = [
        (premise, hypothesis)
        for premise, hypothesis, label in zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True)
        if label == "entailment"
    ]
    number: dict[str, int] = {}  # by letters alone: a premise and its caption may differ in spaces
    documents: list[str] = []
    for text in [*captions, *(premise for premise, _ in entailed)]:
        if number.setdefault(letters(text), len(documents)) == len(documents):
            documents.append(text)
    relevant: dict[str, set[int]] = {}
    for premise, hypothesis in entailed:
        relevant.setdefault(hypothesis, set()).add(number[letters(premise)])
    return documents, list(relevant), list(relevant.values())


def letters(text: str) -> str:
    """Lower-case letters and digits of a text."""
    return "".join(filter(str.isalnum, text.lower()))


def maps(documents: Vectors, queries: Vectors) -> Iterator[tuple[str, Vectors, Vectors]]:
    """Each map's name with all dimensions of documents and queries, of which the first are kept."""
    yield "raw", documents, queries
    whitening = Whitening().fit(torch.from_numpy(documents))
    first, second = (whitening.transform(torch.from_numpy(rows)).numpy() for rows in (documents, queries))
    yield "whitening", first, second


def cut(rows: Vectors, size: int) -> Vectors:
    """The first dimensions, scaled to length 1."""
    kept = rows[:, :size]
    return np.ascontiguousarray(kept / np.linalg.norm(kept, axis=1, keepdims=True))


def latency(index: Any, queries: Vectors) -> float:
    """Milliseconds of one query alone, the best of several rounds: median over queries."""
    return statistics.median(min(milliseconds(index, query) for _ in range(ROUNDS)) for query in queries[:TIMED, None])


def milliseconds(index: Any, query: Vectors) -> float:
    """Time of one search."""
    start = time.perf_counter()
    index.search(query, K)
    return 1000 * (time.perf_counter() - start)


def lines(documents: Vectors, queries: Vectors, relevant: Relevant, sizes: Sequence[int]) -> Iterator[str]:
    """Lines of the table of one encoder."""
    for name, mapped, asked in maps(documents, queries):
        exact: NDArray[np.int64] | None = None
        for size in (mapped.shape[1], *(size for size in sizes if size < mapped.shape[1])):
            rows, searched = cut(mapped, size), cut(asked, size)
            hubs = hubness(rows, K, vectors=HUBNESS_OVER)
            for kind, make in INDICES.items():
                index = make(size)
                index.train(rows)
                index.add(rows)
                found = index.search(searched, K)[1]
                exact = found if exact is None else exact
                cells = [
                    f"{100 * statistics.fmean(map(recall, found, relevant)):.1f}",
                    f"{100 * statistics.fmean(map(recall, found, map(set, exact.tolist()))):.1f}",
                    f"{faiss.serialize_index(index).nbytes / 2**20:.1f}",
                    f"{latency(index, searched):.2f}",
                    f"{hubs:.2f}",
                ]
                yield f"| {name} | {size} | {kind} | " + " | ".join(cells) + " |"


def recall(found: NDArray[np.int64], wanted: set[int]) -> float:
    """Share of the wanted documents that were found."""
    return len(wanted.intersection(found.tolist())) / len(wanted)


def main() -> None:
    """Print a table per encoder."""
    warnings.simplefilter("ignore", FlowbertWarning)  # of dimensions that do not vary
    faiss.omp_set_num_threads(1)
    arguments = parse_arguments()
    documents, queries, relevant = read(arguments)
    for path in arguments.encoder:
        encoder = SentenceEncoder.from_pretrained(path, layers=arguments.layers)
        store = EmbeddingStore(arguments.store_dir, encoder)
        store.add([*documents, *queries])
        print(f"{Path(path).name}: {len(documents)} documents, {len(queries)} queries\n")
        print(f"| map | dimensions | index | recall@{K} | same as exact and full | MB | ms/query | hubness |")
        print("|---|---:|---|---:|---:|---:|---:|---:|")
        rows, asked = (np.asarray(store.embeddings(texts), dtype=np.float32) for texts in (documents, queries))
        for line in lines(rows, asked, relevant, arguments.sizes):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
