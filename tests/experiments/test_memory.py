"""What is compared as it is: pairs, transformers of scikit-learn, SentenceTransformer objects."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from experiments.small import WordSums, compare_small
from flowbert.data.sample import sample_encoder_path, sample_pairs
from flowbert.experiments import compare
from flowbert.maps import Raw, Whitening
from flowbert.tasks import Pairs, load_task
from flowbert.vectors import EmbeddingCache
from helpers import refused

run = partial(compare_small, WordSums())
ROWS = sample_pairs("test")[:60]  # those of the file "one"
FIRST, SECOND, SCORES = (list(side) for side in zip(*ROWS, strict=True))


@pytest.mark.parametrize("kind", ["pairs", "list", "frame"])
def test_pairs_in_memory_are_those_of_a_file(kind, pairs):
    frame = pd.DataFrame({"sentence1": FIRST, "sentence2": SECOND, "score": SCORES})
    own = Pairs(FIRST, SECOND, SCORES)
    given = {"pairs": own, "list": [own], "frame": frame[::1]}[kind]
    scores = [
        run(tasks=tasks).frame.drop(columns=["task", "experiment"])
        for tasks in (given, pairs[0])
    ]
    pd.testing.assert_frame_equal(*scores)


NO_PAIRS: list[tuple[Any, str]] = [
    (Pairs(["a"], ["b", "c"], [1, 2]), r"received \[1, 2, 2\] sentences"),
    (Pairs(["a", " "], ["b", "c"], [1, 2]), "pairs: .*row 2: sentence1 is ' '"),
    (Pairs(["a"] * 5000, ["b"] * 5000, ["1,5"] * 5000), "score is '1,5'; .{,95}$"),
    (
        Pairs(["a", "b"], ["b", "c"], [1, 7], score_range=(0, 5)),
        r"row 2: score is 7; expected a finite number from 0 to 5",
    ),
    (pd.DataFrame({"sentence1": FIRST}), "the columns sentence1; expected sentence1, "),
    ([3], "tasks: received 3"),
    ([Pairs(FIRST, SECOND, SCORES)] * 2, "two are called 'pairs'"),
]


@pytest.mark.parametrize(("tasks", "message"), NO_PAIRS)
def test_pairs_that_are_none(tasks, message):
    refused(message, run, tasks=tasks)


TRANSFORMERS = [
    PCA(n_components=3),
    Normalizer(),
    make_pipeline(StandardScaler(), Whitening(n_components=3)),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
@pytest.mark.parametrize("fitted", [False, True])
def test_transformers_do_here_what_they_do_alone(transformer, fitted, pairs):
    from sklearn.base import clone

    encoder, task = WordSums(), load_task(pairs[0])
    rows = encoder.encode(task.corpus("target").sentences)
    if fitted:
        rows = rows[:50]
    alone = clone(transformer)
    if alone.get_params().get("random_state", 0) is None:
        alone.set_params(random_state=0)
    alone.fit(rows)
    given = alone if fitted else clone(transformer)
    results = run({"own": given}, tasks=pairs[0])
    vectors = torch.from_numpy(
        np.array(alone.transform(encoder.encode(task.sentences)))
    )
    expected = task.measure(vectors).scores["spearman", "wmean"]
    assert results.score("own", "one") == expected
    assert set(results.frame["corpus"]) == {
        "given" if fitted or isinstance(transformer, Normalizer) else "target"
    }


def test_transformers_have_names_and_seeds(pairs):
    results = run([PCA(n_components=2)], tasks=pairs[0], seeds=[0, 1])
    assert set(results.frame["method"]) == {"PCA(n_components=2)"}
    assert set(results.frame["seed"].dropna()) == {0, 1}
    failed = run([LinearDiscriminantAnalysis()], tasks=pairs[0]).frame
    assert failed["value"].isna().all()
    assert failed["reason"].str.contains("cannot be fitted").all()


@pytest.mark.filterwarnings("ignore:.*sentence.transformers.*")
def test_sentence_transformers_are_compared_as_they_are(pairs, tmp_path):
    model = SentenceTransformer(str(sample_encoder_path()), device="cpu")
    task = load_task(pairs[0])
    options: dict[str, Any] = {"tasks": pairs[0], "bootstrap": 0}
    options |= {"cache": EmbeddingCache(tmp_path / "cache")}
    options |= {"output": tmp_path / "results.json"}

    def measured(map):
        corpus = model.encode(list(task.corpus("target").sentences))
        rows = map.fit(corpus).transform(model.encode(task.sentences))
        scores = task.measure(torch.from_numpy(rows)).scores
        return pytest.approx(scores["spearman", "wmean"], abs=1e-4)

    whitening = Whitening(n_components=8)
    as_encoder = compare(model, ["raw", whitening], **options)
    raw = as_encoder.score("raw", "one")
    assert raw == measured(Raw())
    assert as_encoder.score("whitening-8", "one") == measured(whitening)
    as_method = compare(WordSums(), ["raw", model], **options)
    name = sample_encoder_path().name
    assert as_method.score(name, "one") == raw
