"""Search in your own sentences: frozen encoder, whitening, faiss.

python examples/search.py "A woman is dancing."
python examples/search.py "my question" --input sentences.txt --encoder DIR
"""

import argparse

import faiss

from flowbert import Model, SentenceEncoder, Whitening, load_corpus


def main(words: list[str] | None = None) -> list[str]:
    """Print the nearest sentences, and return them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query")
    parser.add_argument("--input", default="builtin-sample")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--count", type=int, default=5)
    options = parser.parse_args(words)

    sentences = sorted(set(load_corpus(options.input).sentences))
    encoder = SentenceEncoder(options.encoder, layers="embedding_last", pooling="zipf")
    whitening = Whitening(shrinkage=0.3).fit(encoder.encode(sentences))
    model = Model(encoder, whitening)

    # Inner products of vectors of length 1 are cosines.
    vectors = model.encode(sentences, normalize_embeddings=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    query = model.encode([options.query], normalize_embeddings=True)
    cosines, rows = index.search(query, min(options.count, len(sentences)))
    for cosine, row in zip(cosines[0], rows[0], strict=True):
        print(f"{cosine:.2f}  {sentences[row]}")
    return [sentences[row] for row in rows[0]]


if __name__ == "__main__":
    main()
