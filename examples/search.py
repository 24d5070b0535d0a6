"""Search in your own sentences: a saved model, or an encoder with the advised map; faiss.

python examples/search.py "A woman is dancing."
python examples/search.py "my question" --input sentences.txt --model my-model --vectors vectors.npy
python examples/search.py "my question" --input sentences.txt --encoder DIR
"""

import argparse

import faiss
import numpy as np

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
    parser.add_argument("--vectors", help=".npy file that encode wrote for --input")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--count", type=int, default=5)
    options = parser.parse_args(words)

    sentences = load_corpus(options.input).sentences
    model = (
        Model.load(options.model)
        if options.model
        else fit_advised(options.encoder, sorted(set(sentences)))
    )
    vectors = np.load(options.vectors) if options.vectors else model.encode(sentences)
    if len(vectors) != len(sentences):
        parser.error(
            f"{options.vectors} has {len(vectors)} rows; expected {len(sentences)}, "
            f"those of {options.input}"
        )
    distinct, first = np.unique(sentences, return_index=True)
    vectors = np.ascontiguousarray(vectors[first], dtype="float32")

    # Inner products of vectors of length 1 are cosines.
    faiss.normalize_L2(vectors)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    query = model.encode([options.query], normalize_embeddings=True)
    cosines, rows = index.search(query, min(options.count, len(distinct)))
    nearest = [str(distinct[row]) for row in rows[0]]
    for cosine, sentence in zip(cosines[0], nearest, strict=True):
        print(f"{cosine:.2f}  {sentence}")
    return nearest


if __name__ == "__main__":
    main()
