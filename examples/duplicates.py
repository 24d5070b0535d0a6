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

    sentences = sorted(set(load_corpus(options.input).sample(2000, seed=0).sentences))
    encoder = SentenceEncoder(options.encoder, layers="embedding_last", pooling="zipf")
    whitening = Whitening(shrinkage=0.3).fit(encoder.encode(sentences))
    vectors = Model(encoder, whitening).encode(sentences, normalize_embeddings=True)

    cosines = np.triu(vectors @ vectors.T, k=1)
    # What a cosine means depends on encoder and text: compare with random pairs of the text.
    pairs = cosines[np.triu_indices(len(sentences), k=1)]
    threshold = np.percentile(pairs, options.percentile)
    print(f"cosine of at least {threshold:.2f}: {np.sum(pairs >= threshold)} pairs")
    best = np.argsort(cosines, axis=None)[::-1][: options.count]
    found = [divmod(int(place), len(sentences)) for place in best]
    for one, other in found:
        print(f"{cosines[one, other]:.2f}  {sentences[one]}  |  {sentences[other]}")
    return [(sentences[one], sentences[other]) for one, other in found]


if __name__ == "__main__":
    main()
