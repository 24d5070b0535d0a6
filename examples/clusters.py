"""Clusters of your own sentences, each shown by the sentences nearest to its centre.

python examples/clusters.py
python examples/clusters.py --input sentences.txt --encoder DIR --clusters 20
"""

import argparse

import numpy as np
from sklearn.cluster import KMeans

from flowbert import Model, SentenceEncoder, Whitening, load_corpus


def main(words: list[str] | None = None) -> list[list[str]]:
    """Print three sentences of each cluster, the largest first, and return them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", default="builtin-sample")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--clusters", type=int, default=8)
    options = parser.parse_args(words)

    sentences = sorted(set(load_corpus(options.input).sentences))
    encoder = SentenceEncoder(options.encoder, layers="embedding_last", pooling="zipf")
    whitening = Whitening(shrinkage=0.3).fit(encoder.encode(sentences))
    vectors = Model(encoder, whitening).encode(sentences, normalize_embeddings=True)

    clusters = min(options.clusters, len(sentences))
    fitted = KMeans(clusters, n_init=3, random_state=0).fit(vectors)
    sizes = np.bincount(fitted.labels_)
    shown = []
    for cluster in np.argsort(-sizes):
        members = np.flatnonzero(fitted.labels_ == cluster)
        near = vectors[members] @ fitted.cluster_centers_[cluster]
        shown.append([sentences[row] for row in members[np.argsort(-near)[:3]]])
        print(f"{sizes[cluster]:5}  {'  |  '.join(shown[-1])}")
    return shown


if __name__ == "__main__":
    main()
