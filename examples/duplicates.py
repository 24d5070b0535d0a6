"""Near-duplicates in your own sentences, by a cosine that few random pairs reach.

python examples/duplicates.py
python examples/duplicates.py --input sentences.txt --encoder DIR --percentile 99.99
"""

import argparse

import numpy as np

from flowbert import Model, SentenceEncoder, Whitening, load_corpus


def main(words: list[str] | None = None) -> list[tuple[str, str]]:
    """Print pairs of sentences, the most similar first, and return them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", default="builtin-sample")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--percentile", type=float, default=99.9)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args(words)

    sentences = sorted(set(load_corpus(options.input).sentences))
    encoder = SentenceEncoder(options.encoder, layers="embedding_last", pooling="zipf")
    whitening = Whitening(shrinkage=0.3).fit(encoder.encode(sentences))
    vectors = Model(encoder, whitening).encode(sentences, normalize_embeddings=True)

    # What a cosine means depends on encoder and text: compare with random pairs of the text.
    one, other = np.random.default_rng(0).integers(len(sentences), size=(2, 100_000))
    cosines = np.sum(vectors[one] * vectors[other], axis=1)[one != other]
    threshold = np.percentile(cosines, options.percentile)
    pairs = nearest_pairs(vectors, options.count)
    reached = [pair for pair in pairs if pair[0] >= threshold]
    print(
        f"{len(reached)} of the nearest pairs have a cosine of {threshold:.2f} or more"
    )
    for cosine, row, column in pairs:
        print(f"{cosine:.2f}  {sentences[row]}  |  {sentences[column]}")
    return [(sentences[row], sentences[column]) for _, row, column in pairs]


def nearest_pairs(
    vectors: np.ndarray, count: int, block: int = 1000
) -> list[tuple[float, int, int]]:
    """Cosine and rows of the most similar pairs of unit vectors, from blocks of all pairs."""
    pairs: list[tuple[float, int, int]] = []
    for start in range(0, len(vectors), block):
        cosines = vectors[start : start + block] @ vectors[start:].T
        # A sentence with itself, and the pairs that are there in the other order.
        cosines[np.tril_indices(len(cosines))] = -2
        last = min(count, cosines.size)
        best = np.argpartition(cosines, -last, axis=None)[-last:]
        for row, column in zip(*np.unravel_index(best, cosines.shape), strict=True):
            if cosines[row, column] > -2:
                pair = (float(cosines[row, column]), start + row, start + column)
                pairs.append(pair)
        pairs = sorted(pairs, reverse=True)[:count]
    return pairs


if __name__ == "__main__":
    main()
