"""Vector search with FAISS: recall, memory and latency of raw and whitened vectors.

Documents are captions and the premises of entailed hypotheses; a hypothesis is a query, and its
premises are what it should find. A caption that nobody labelled counts as wrong, in every row
alike. Whitening is fitted on the documents. Prints a Markdown table for each encoder.

    python -m benchmarks.vector_search --encoder DIR DIR --corpus captions.txt --nli snli.jsonl
"""

import argparse
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import load_corpus
from flowbert.data.nli import load_nli
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.maps import make_map
from flowbert.vectors import EmbeddingCache

K = 10
TIMED, ROUNDS = 200, 3  # queries whose latency is measured, one by one
METHODS = ("raw", "whitening")
Vectors = NDArray[np.float32]
Relevant = list[set[int]]


def index_of(kind: str, dim: int) -> Any:
    """An empty index: exact, of bytes, or of a graph with 32 links."""
    if kind == "flat":
        return faiss.IndexFlatIP(dim)
    if kind == "8 bit":
        quantizer = faiss.ScalarQuantizer.QT_8bit
        return faiss.IndexScalarQuantizer(dim, quantizer, faiss.METRIC_INNER_PRODUCT)
    return faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)


def read(corpus: str, nli: str, captions: int) -> tuple[list[str], list[str], Relevant]:
    """Documents, queries, and the rows of the documents that each query should find."""
    distinct = list(dict.fromkeys(load_corpus(corpus).sentences))
    documents = random.Random(0).sample(distinct, min(captions, len(distinct)))
    data = load_nli(nli)
    rows: dict[str, int] = {}  # by letters: a premise and its caption differ in spaces
    for row, text in enumerate(documents):
        rows.setdefault(letters(text), row)
    relevant: dict[str, set[int]] = {}
    for premise, hypothesis, label in zip(
        data.premises, data.hypotheses, data.labels, strict=True
    ):
        if label != "entailment":
            continue
        if letters(premise) not in rows:
            rows[letters(premise)] = len(documents)
            documents.append(premise)
        relevant.setdefault(hypothesis, set()).add(rows[letters(premise)])
    return documents, list(relevant), list(relevant.values())


def letters(text: str) -> str:
    """Lower-case letters and digits of a text."""
    return "".join(filter(str.isalnum, text.lower()))


def cut(rows: Vectors, size: int) -> Vectors:
    """The first dimensions, scaled to length 1."""
    kept = rows[:, :size]
    return np.ascontiguousarray(kept / np.linalg.norm(kept, axis=1, keepdims=True))


def latency(index: Any, queries: Vectors) -> float:
    """Milliseconds of a single query, the best of several rounds: median over queries."""
    best = []
    for query in queries[:TIMED, None]:
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            index.search(query, K)
            seconds.append(time.perf_counter() - start)
        best.append(1000 * min(seconds))
    return median(best)


def recall(found: NDArray[np.int64], relevant: Sequence[set[int]]) -> float:
    """Mean share of the relevant documents that were found, in percent."""
    shares = [
        len(wanted & set(rows)) / len(wanted)
        for rows, wanted in zip(found.tolist(), relevant, strict=True)
    ]
    return 100 * fmean(shares)


def lines(
    documents: Vectors, queries: Vectors, relevant: Relevant, sizes: Sequence[int]
) -> Iterator[str]:
    """Lines of the table of one encoder."""
    for method in METHODS:
        fitted = make_map(method).fit(documents)
        mapped, asked = fitted.transform(documents), fitted.transform(queries)
        exact: Relevant | None = None
        full = mapped.shape[1]
        for size in (full, *(size for size in sizes if size < full)):
            rows, searched = cut(mapped, size), cut(asked, size)
            for kind in ("flat", "8 bit", "HNSW"):
                index = index_of(kind, size)
                index.train(rows)
                index.add(rows)
                found = index.search(searched, K)[1]
                exact = exact or [set(row) for row in found.tolist()]
                cells = [method, str(size), kind]
                cells += [
                    f"{recall(found, wanted):.1f}" for wanted in (relevant, exact)
                ]
                cells.append(f"{faiss.serialize_index(index).nbytes / 2**20:.1f}")
                cells.append(f"{latency(index, searched):.2f}")
                yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True, nargs="+", help="folders or names")
    parser.add_argument("--layers", help="default: as trained, else last")
    parser.add_argument("--corpus", required=True, help="captions, one on a line")
    parser.add_argument(
        "--nli", required=True, help="pairs whose premises are captions"
    )
    parser.add_argument("--captions", default=50_000, type=int)
    parser.add_argument("--sizes", default=[256, 128, 64], nargs="+", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore", FlowbertWarning)  # of directions without variance
    faiss.omp_set_num_threads(1)
    documents, queries, relevant = read(options.corpus, options.nli, options.captions)
    cache = EmbeddingCache()
    for path in options.encoder:
        encoder = SentenceEncoder(path, layers=options.layers)
        print(
            f"{Path(path).name}: {len(documents)} documents, {len(queries)} queries\n"
        )
        print(
            f"| map | dimensions | index | recall@{K} | as exact and full | MB | ms |"
        )
        print("|---|---:|---|---:|---:|---:|---:|")
        embedded = cache.rows(encoder, documents)[:], cache.rows(encoder, queries)[:]
        for line in lines(*embedded, relevant, options.sizes):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
