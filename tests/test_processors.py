"""Random numbers, files, vectors and scores on another processor (docs/reliability.md)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from flowbert import compare
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.experiments import Results
from flowbert.io import digest, load_tensors, save_tensors, sentences_digest
from flowbert.maps import Moments, Whitening, load_map, save_map
from flowbert.seeding import Stream
from flowbert.tasks.measures import draw_counts
from flowbert.vectors import EmbeddingCache

OTHER_PROCESSOR = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OMP_NUM_THREADS": "1" if torch.get_num_threads() > 1 else "2",
}
ROUNDING = 2.0**-24  # u of float32
SENTENCES = list(dict.fromkeys(sample_corpus()))[:200]
PAIRS = slice(0, 200, 2), slice(1, 200, 2)

pytestmark = [
    pytest.mark.slow,  # `make test-processors`, which CI calls, runs this file, too
    pytest.mark.filterwarnings("ignore:whitening. N=.* are few"),
]


def write_before(folder):
    """Write what travels: cached vectors, a map, pairs to compare on and their results."""
    encoder = SentenceEncoder()
    vectors = EmbeddingCache(folder / "cache").rows(encoder, SENTENCES)[:]
    np.save(folder / "vectors.npy", vectors)
    save_map(Whitening().fit(vectors), folder / "map.safetensors")
    sides = {"sentence1": SENTENCES[PAIRS[0]], "sentence2": SENTENCES[PAIRS[1]]}
    frame = pd.DataFrame(sides).assign(score=np.arange(len(SENTENCES) // 2) % 6)
    frame.to_csv(folder / "pairs.csv", index=False)
    measured(folder).save(folder / "results.json")


def measured(folder):
    return compare(
        tasks=str(folder / "pairs.csv"), cache=str(folder / "cache"), bootstrap=20
    )


def exact(folder):
    """Draws and stored content that are equal to the last bit."""
    generator = Stream(0, "masks").generator()
    with torch.random.fork_rng():
        Stream(0, "dropout").seed_torch()
        dropout = torch.nn.functional.dropout(torch.ones(50, 100), 0.1)
    rng = Stream(0, "order", epoch=3).rng()
    file = folder / f"file{os.getpid()}.safetensors"
    save_tensors(file, "test", {"x": torch.arange(9.0)}, name="é")
    identity = {"encoder": SentenceEncoder().identity}
    texts = [digest(file.read_bytes()), sentences_digest(SENTENCES), str(identity)]
    results = Results.load(folder / "results.json")
    return {
        "permutation": torch.from_numpy(rng.permutation(1000)),
        "order": torch.randperm(1000, generator=generator),
        "dropout": dropout,
        "multiplicities": torch.from_numpy(
            draw_counts((300, 200), 10, Stream(0, "bootstrap"))
        ),
        "files": torch.tensor([ord(letter) for text in texts for letter in text]),
        "cached": torch.from_numpy(
            EmbeddingCache(folder / "cache").rows(SentenceEncoder(), SENTENCES)[:]
        ),
        "results": float64(results.frame["value"]),
    }


def rounded(folder):
    """Numbers that are equal up to rounding."""
    vectors = np.load(folder / "vectors.npy")
    encoded = SentenceEncoder().encode(SENTENCES)
    return {
        "normal": torch.randn(4000, generator=Stream(0, "noise").generator()),
        "encoded": torch.from_numpy(encoded),
        "raw cosines": cosines(torch.from_numpy(encoded)),
        "mapped": torch.from_numpy(
            load_map(folder / "map.safetensors").transform(vectors)
        ),
        "whitened cosines": cosines(
            torch.from_numpy(Whitening().fit_transform(encoded))
        ),
        "measured": float64(measured(folder).frame["value"]),
    }


def float64(values):
    return torch.tensor(list(values), dtype=torch.float64)


def cosines(vectors):
    first, second = (vectors[pairs].double() for pairs in PAIRS)
    return torch.cosine_similarity(first, second)


@pytest.fixture(scope="module")
def travel(tmp_path_factory):
    """The folder, and what this processor and another one make of it."""
    folder = tmp_path_factory.mktemp("travel")
    write_before(folder)
    here = exact(folder), rounded(folder)
    subprocess.run(
        [sys.executable, __file__, str(folder)],
        check=True,
        env={**os.environ, **OTHER_PROCESSOR, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    there = [load_tensors(folder / name, "test")[0] for name in ("exact", "rounded")]
    return folder, *zip(here, there, strict=True)


def test_equal_to_the_last_bit(travel):
    folder, (here, there), _ = travel
    files = list((folder / "cache").glob("*.sqlite"))
    assert len(files) == 1  # of one identity; what is there is read
    assert here.keys() == there.keys()
    assert [name for name in here if not torch.equal(here[name], there[name])] == []


def test_normal_numbers_to_a_few_units(travel):
    _, _, (here, there) = travel
    # sqrt(-2 log a) cos(2 pi b): the argument of the cosine is rounded, so the error is a share
    # of the radius, at most sqrt(2 * 24 log 2) = 5.8, not of the number; five roundings.
    error = (here["normal"] - there["normal"]).abs().max()
    assert error <= 2 * 5 * 2 * np.pi * 5.8 * ROUNDING


def embedding_bound():
    """Bound of the relative difference of two vectors of an encoder, to first order.

    Two orders of a sum of n terms differ by at most 2 n u of their absolute values (Higham,
    Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). Sums that follow each
    other in a layer: five of the hidden size, one of the intermediate size, scores, context and
    softmax over the tokens; layer norms keep relative errors.
    """
    config: Any = SentenceEncoder().backbone.network.config
    layers: int = config.num_hidden_layers
    head = config.hidden_size // config.num_attention_heads
    tokens = max(SentenceEncoder().lengths(SENTENCES))
    terms: int = 5 * config.hidden_size + config.intermediate_size + head + 2 * tokens
    return 2 * layers * terms * ROUNDING


def test_vectors_and_cosines_to_the_bound(travel):
    _, _, (here, there) = travel
    lengths = here["encoded"].norm(dim=1)
    errors = (here["encoded"] - there["encoded"]).norm(dim=1)
    bound = embedding_bound()
    assert (errors <= bound * lengths).all()
    # Each of two unit vectors turns by at most the relative error.
    assert (here["raw cosines"] - there["raw cosines"]).abs().max() <= 2 * bound


def test_whitened_cosines_by_the_smallest_variance(travel):
    folder, _, (here, there) = travel
    vectors = here["encoded"]
    variances = Moments(vectors.shape[1]).update(vectors).eigen()[0]
    kept = variances[: load_map(folder / "map.safetensors").transform(vectors).shape[1]]
    # An error d of each vector is at most e = d / sqrt(variance) after whitening; the map itself
    # changes by the share e, the mean by e, for both vectors of a pair, of length above 1.
    error = (vectors - there["encoded"]).norm(dim=1).max() / kept[-1].sqrt()
    difference = (here["whitened cosines"] - there["whitened cosines"]).abs().max()
    assert difference <= 6 * error + 4 * ROUNDING  # float32 vectors: each turns by 2 u


def test_a_saved_map_to_rounding(travel):
    folder, _, (here, there) = travel
    fitted = load_map(folder / "map.safetensors")
    weight, _ = fitted.affine()
    rows = torch.from_numpy(np.load(folder / "vectors.npy")).double()
    sums = (rows - fitted.center_).abs() @ weight.abs()
    # Sums of D products in float64, then one rounding to float32 on each side.
    bound = 2 * len(weight) * 2.0**-53 * sums + 2 * ROUNDING * here["mapped"].abs()
    assert ((here["mapped"] - there["mapped"]).abs() <= bound).all()


def test_scores_of_cached_vectors(travel):
    _, _, (here, there) = travel
    # Uniformity has products in float32, which change it by less than 1e-6.
    assert (here["measured"] - there["measured"]).abs().max() <= 1e-6


if __name__ == "__main__":
    path = Path(sys.argv[1])
    save_tensors(path / "exact", "test", exact(path))
    save_tensors(path / "rounded", "test", rounded(path))
