"""Real encoders on real sentences: known figures, and the invariances that they rest on."""

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import spearmanr

from flowbert.encoders import SentenceEncoder
from flowbert.store.embedding_store import EmbeddingStore

pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("ignore:encoder .* ends in Normalize:flowbert.errors.FlowbertWarning"),
]

Pairs = tuple[list[str], list[str], npt.NDArray[np.float64]]


@pytest.fixture
def stsb(real: Path) -> Pairs:
    path = real / "data" / "senteval" / "STS" / "STSBenchmark" / "sts-test.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[5] for row in rows], [row[6] for row in rows], np.array([float(row[4]) for row in rows])


def cosine(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    x, y = (v / np.linalg.norm(v.astype(np.float64), axis=1, keepdims=True) for v in (x, y))
    result: npt.NDArray[np.float64] = (x * y).sum(axis=1)
    return result


@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "layers", "expected"), [("all-MiniLM-L6-v2", "last", 82.03), ("minilm-mlm", "first_last", 57.08)]
)
def test_stsb_raw(real: Path, stsb: Pairs, tmp_path: Path, name: str, layers: str, expected: float) -> None:
    encoder = SentenceEncoder.from_pretrained(str(real / "models" / name), layers=layers)
    first, second, gold = stsb
    store = EmbeddingStore(tmp_path, encoder)
    store.add([*first, *second])
    assert len(gold) == 1379
    assert store.embeddings(first).shape == (1379, 384)
    assert len(store) == len({*first, *second})
    figure = 100 * spearmanr(cosine(store.embeddings(first), store.embeddings(second)), gold).statistic
    assert figure == pytest.approx(expected, abs=0.02)


def test_invariance_of_a_checkpoint_stored_in_float16(real: Path, stsb: Pairs) -> None:
    encoder = SentenceEncoder.from_pretrained(str(real / "models" / "minilm-mlm"), layers="first_last")
    assert str(encoder.dtype) == "torch.float32"
    sentences = stsb[0][:150]
    expected = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    order = np.random.default_rng(0).permutation(150)
    for budget in (64, 512, 8192):
        result = encoder.encode([sentences[i] for i in order], batch_tokens=budget)
        np.testing.assert_allclose(result, expected[order], rtol=0, atol=1e-4)


def test_a_sentence_transformers_folder_keeps_its_own_meaning(real: Path) -> None:
    """Mean pooling of the last layer, cut after 256 tokens; the final normalization is left out unless asked for."""
    folder = real / "models" / "all-MiniLM-L6-v2"
    sentence_transformers = pytest.importorskip("sentence_transformers")
    peer = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    sentences = ["A man is playing a guitar.", "", "Two dogs run across a field of grass, barking.", "word " * 400]
    ours = SentenceEncoder.from_pretrained(str(folder)).encode(sentences)
    for vectors in (
        ours / np.linalg.norm(ours, axis=1, keepdims=True),
        SentenceEncoder.from_pretrained(str(folder), modules="all").encode(sentences),
    ):
        np.testing.assert_allclose(vectors, peer.encode(sentences), rtol=0, atol=1e-5)
