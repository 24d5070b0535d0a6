"""Search in your own sentences: a saved model, or an encoder with the advised map; faiss.

python examples/search.py "A woman is dancing."
python examples/search.py "my question" --input sentences.txt --model my-model
python examples/search.py "my question" --input sentences.txt --encoder DIR
"""

import argparse

import faiss

from flowbert import Model, SentenceEncoder, advise, load_corpus, make_map


def fit_advised(path: str, sentences: list[str]) -> Model:
    """An encoder as :func:`flowbert.advise` uses it: as it is, if trained for similarity."""
    advice = advise(path)
    if advice.method == "raw":
        return Model.load(path)
    encoder = SentenceEncoder(
        path,
        layers=advice.layers,
        pooling=advice.pooling,
        template=advice.template or None,
    )
    return Model(encoder, make_map(advice.method).fit(encoder.encode(sentences)))


def main(words: list[str] | None = None) -> list[str]:
    """Print the nearest sentences, and return them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query")
    parser.add_argument("--input", default="builtin-sample")
    parser.add_argument("--model", help="folder of a saved model, used as it is")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--count", type=int, default=5)
    options = parser.parse_args(words)

    sentences = sorted(set(load_corpus(options.input).sentences))
    model = (
        Model.load(options.model)
        if options.model
        else fit_advised(options.encoder, sentences)
    )

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
