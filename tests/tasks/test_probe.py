"""Linear probe: what it must find and must not, its features, its resamples, and real labels."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from flowbert.data.entailment import EntailmentTask, load_entailment
from flowbert.data.nli import LABELS, NLIData
from flowbert.data.sts import load_task
from flowbert.errors import UserError
from flowbert.tasks import STS, Probe, TaskOptions, load_tasks, resampling
from flowbert.tasks.probe import PENALTIES, pair_features, standardized

SIZES = {"train": 240, "dev": 60, "test": 90}


def made_task(seed: int = 0) -> Probe:
    """Three hypotheses for each premise, one by label; their words say the label."""
    splits = {}
    for split, size in SIZES.items():
        premises = tuple(f"{split} {row // 3} {seed}" for row in range(size))
        labels = tuple(LABELS[row % 3] for row in range(size))
        hypotheses = tuple(f"{p} {label}" for p, label in zip(premises, labels, strict=True))
        splits[split] = NLIData(premises, hypotheses, labels)
    return Probe(EntailmentTask("T", splits))


def noise(text: str, size: int = 6) -> NDArray[np.float64]:
    return np.random.default_rng(list(text.encode())).normal(size=size)


def informed(texts: Sequence[str], strength: float = 3.0) -> NDArray[np.float64]:
    """Noise, and in the first dimensions what the last word says."""
    rows = []
    for text in texts:
        row = noise(text)
        label = text.split()[-1]
        if label in LABELS:
            row[LABELS.index(label)] += strength
        rows.append(row)
    return np.array(rows)


def accuracy(task: Probe, embeddings: object, transform: object = None) -> float:
    prepared = task.prepare(lambda _: torch.as_tensor(embeddings))
    (figure,) = task.measure(prepared, transform).figures  # type: ignore[arg-type]
    return figure.value


def test_an_informative_embedding_beats_a_shuffled_one() -> None:
    task = made_task()
    vectors = informed(list(task.rows))
    shuffled = np.random.default_rng(1).permutation(vectors)
    assert accuracy(task, vectors) > 0.85
    assert accuracy(task, shuffled) == pytest.approx(1 / 3, abs=0.15)


def test_more_of_the_label_is_more_accurate() -> None:
    task = made_task()
    weak, strong = (accuracy(task, informed(list(task.rows), strength)) for strength in (1.0, 4.0))
    assert weak + 0.1 < strong


def test_a_constant_embedding_is_the_majority() -> None:
    task = made_task()
    vectors = np.full((len(task.rows), 4), 0.1)
    (majority,) = task.references.values()
    assert accuracy(task, vectors) == pytest.approx(majority.mean()) == pytest.approx(1 / 3)


def test_it_is_scikit_learns_with_the_best_penalty_of_dev() -> None:
    task = made_task()
    vectors = informed(list(task.rows), 1.5)
    place = {text: row for row, text in enumerate(task.rows)}
    x, y = {}, {}
    for split, data in task.data.splits.items():
        u, v = (vectors[[place[text] for text in texts]] for texts in (data.premises, data.hypotheses))
        x[split], y[split] = np.hstack([np.abs(u - v), u * v]), np.array([LABELS.index(each) for each in data.labels])
    scaler = StandardScaler().fit(x["train"])
    x = {split: scaler.transform(each) for split, each in x.items()}
    peers = [
        LogisticRegression(C=1 / (len(x["train"]) * penalty), tol=1e-9, max_iter=9999).fit(x["train"], y["train"])
        for penalty in PENALTIES
    ]
    best = peers[int(np.argmax([peer.score(x["dev"], y["dev"]) for peer in peers]))]
    items = task.item_values(torch.as_tensor(vectors), None)
    np.testing.assert_array_equal(items, best.predict(x["test"]) == y["test"])


def test_the_scale_of_the_embeddings_plays_no_role() -> None:
    """Features are standardized: a penalty means the same under every map."""
    task = made_task()
    prepared = torch.as_tensor(informed(list(task.rows), 1.5))
    plain = task.item_values(prepared, None)
    np.testing.assert_array_equal(plain, task.item_values(prepared, lambda x: 1000 * x))
    np.testing.assert_array_equal(plain, task.item_values(prepared, lambda x: x / 1000))


def test_rounding_in_dead_dimensions_is_no_feature() -> None:
    """However a map turns them: what encoders and maps leave there differs by machine and number of threads."""
    task = made_task()
    alive = informed(list(task.rows), 1.5)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0]
    found = []
    for seed in range(4):
        dead = np.full((len(alive), 3), 0.2) + 1e-8 * np.random.default_rng(seed).normal(size=(len(alive), 3))
        vectors = np.hstack([alive, dead])
        found.append(task.item_values(torch.as_tensor(vectors), None))
        turned = task.item_values(torch.as_tensor(vectors @ axes), lambda x: (x @ torch.as_tensor(axes.T)) - 0.2)
        shifted = task.item_values(torch.as_tensor(alive - 0.2), None)
        np.testing.assert_array_equal(turned, shifted)
    expected = task.item_values(torch.as_tensor(alive), None)
    for items in found:
        np.testing.assert_array_equal(items, expected)


def test_labels_never_reach_the_map() -> None:
    task = made_task()
    seen = []

    def transform(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape))
        return x

    task.item_values(torch.as_tensor(informed(list(task.rows))), transform)
    assert seen == [(len(task.rows), 6)]
    assert not task.labelled()


def test_vectors_without_numbers_are_a_reason() -> None:
    task = made_task()
    vectors = informed(list(task.rows))
    vectors[[1, 5], 2] = math.nan
    measured = task.measure(task.prepare(lambda _: vectors))
    (figure,) = measured.figures
    assert math.isnan(figure.value)
    assert figure.reason == f"2 of {len(vectors)} embeddings are NaN or infinite; allowed: finite numbers"
    assert measured.items.shape == task.item_shape


def test_features_and_their_scale() -> None:
    u, v = np.array([[1.0, -2.0], [0.0, 4.0]]), np.array([[3.0, 1.0], [0.5, 4.0]])
    np.testing.assert_array_equal(pair_features(u, v), [[2, 3, 3, -2], [0.5, 0, 0, 16]])
    np.testing.assert_array_equal(pair_features(u, v), pair_features(v, u))
    train = np.random.default_rng(0).normal(3, 5, size=(50, 4))
    train[:, 2] = 0.1
    scaled, other = standardized(train, train[:7])
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0, 1], atol=1e-12)
    np.testing.assert_array_equal(other, scaled[:7])


def test_a_label_that_is_not_trained_on_is_never_right() -> None:
    task = made_task()
    binary = {
        split: NLIData(d.premises, d.hypotheses, tuple("entailment" if n == "neutral" else n for n in d.labels))
        for split, d in task.data.splits.items()
    }
    probe = Probe(EntailmentTask("T", {**binary, "test": task.data.splits["test"]}))
    items = probe.item_values(torch.as_tensor(informed(list(probe.rows))), None)
    assert not items[1::3].any()
    assert items[::3].mean() > 0.8


def test_replicates_are_the_accuracies_of_the_repeated_premises() -> None:
    task = made_task()
    items = (np.random.default_rng(0).random(90) < 0.7).astype(np.float64)
    found = task.resample({"some": items, "same": items.copy()}, resamples=20, seed=3)["accuracy", "all"]
    counts = np.concatenate([block.multiplicities([30]) for block in resampling.blocks("T", 90, 20, 3)])
    for number, drawn in enumerate(counts):
        expected = items[np.repeat(np.arange(90), drawn[np.arange(90) // 3])].mean()
        assert found.values[found.methods.index("some"), number] == pytest.approx(expected, abs=1e-12)
    assert found.methods == ("majority", "some", "same")
    same = found.difference("some", "same")
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_what_decides_the_figures_is_in_the_key() -> None:
    task = made_task()
    swapped = dict(task.data.splits)
    data = swapped["train"]
    swapped["train"] = NLIData(data.premises, data.hypotheses, data.labels[::-1])
    assert task.key == made_task().key
    assert Probe(EntailmentTask("T", swapped)).key != task.key != made_task(1).key


def test_it_is_measured_on_test_alone() -> None:
    with pytest.raises(UserError, match=r"split: received dev; allowed for a probe: test \(dev chooses its penalty\)"):
        load_tasks({"sts": ["probe:SAMPLE"]}, TaskOptions(splits=("dev",)))
    (task,) = load_tasks({"sts": ["probe:SAMPLE"]}, TaskOptions(splits=("dev", "test")))
    assert (task.kind, task.name, task.split) == ("probe", "SAMPLE", "test")
    assert len(task.corpus("train_only")) == 2 * 9600


@pytest.mark.real
@pytest.mark.slow  # 6,077 sentences are encoded
def test_real_accuracy_of_a_raw_encoder(real: Path) -> None:
    """Near what SentEval's SICK-E gives sentence encoders, and far above the majority."""
    from flowbert.encoders import SentenceEncoder

    senteval = real / "data" / "senteval"
    task = Probe(load_entailment("SICKR", senteval))
    assert task.corpus("target").digest == STS(load_task("SICKR", senteval)).corpus("target").digest
    encoder = SentenceEncoder.from_pretrained(str(real / "models" / "all-MiniLM-L6-v2"), modules="dense")
    vectors = task.prepare(encoder.encode)
    items = task.item_values(vectors, None)
    for seed in range(2):  # three dimensions of this encoder are dead: their rounding is no feature
        rounding = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(seed)) * 1e-7 * vectors.abs()
        np.testing.assert_array_equal(task.item_values(vectors + rounding, None), items)
    assert (len(items), task.strata) == (4927, (3393,))
    assert 0.82 < items.mean() < 0.86
    assert task.references["majority"].mean() == pytest.approx(2793 / 4927)
