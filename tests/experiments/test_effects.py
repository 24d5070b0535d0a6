"""Mistakes in the options of a comparison, and names that stand for two things."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.small import WordSums, compare_small, write_corpus, write_pairs
from flowbert.encoders import SentenceEncoder
from flowbert.maps import Truncation, Whitening, make_map
from flowbert.model import Model
from flowbert.tasks import load_tasks
from helpers import refused, rows

run = partial(compare_small, WordSums())
FLOW = "flow:levels=1:depth=1:width=4:steps=2"


OUT_OF_RANGE = {"tasks": "SAMPLE", "score_range": (6, 9)}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"seeds": []}, r"seeds: received \[\]; expected one or more"),
    ({"seeds": [0, 0], "methods": FLOW}, r"seeds: received \[0, 0\]"),
    ({"corpus": "train_only", "tasks": "pairs"}, "corpus: received 'train_only'"),
    ({"output": "results.csv"}, r"output: received results\.csv"),
    ({"methods": "learned-removal", "tasks": "pairs"}, "labels: .* one test"),
    ({"labels": "pairs", "tasks": "pairs", "methods": "learned-removal"}, "labels: 60"),
    ({"labels": "pairs", **OUT_OF_RANGE, "methods": "learned-removal"}, "from 6 to 9"),
    ({"methods": "whitenning"}, "methods: .*whitenning.*whitening"),
    ({"methods": "zca,zca+raw,zca+raw:x=1"}, "raw:x=1"),
    ({"methods": "flow:random_state=5"}, "received the option 'random_state'"),
    ({"methods": "flow:noise=low"}, "flow:noise=low: noise: received 'low'"),
    ({"methods": ["zca", make_map("zca")]}, "methods: received zca, zca; expected"),
    ({"methods": [Whitening().fit(rows(20, 4))]}, "vectors of size 4; expected .* 6"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=str)
def test_mistakes_are_named_before_anything_is_encoded(
    options, message, encoder, pairs
):
    given = {name: pairs[0] if x == "pairs" else x for name, x in options.items()}
    refused(message, compare_small, encoder, **given)
    assert encoder.encoded == []


def test_each_seed_draws_its_own_sample(pairs, tmp_path):
    corpus = write_corpus(tmp_path / "own.txt", 300)
    options: dict[str, Any] = {"tasks": pairs[0], "corpus": corpus}
    whole = run("raw,whitening", **options, max_sentences=300)
    assert whole.frame["seed"].isna().all()  # nothing was drawn
    scores = [
        run("whitening", **options, max_sentences=100, seeds=seed).score(
            "whitening", "one"
        )
        for seed in (0, 1)
    ]
    assert scores[0] != scores[1]
    both = run("raw,whitening", **options, max_sentences=100, seeds=[0, 1])
    own = [both.score("whitening", "one", seed=seed) for seed in (0, 1)]
    assert own == scores


def test_no_task_has_the_name_of_the_average(tmp_path):
    file = write_pairs(tmp_path / "average.csv")
    Path(file).write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    refused("tasks: received one called 'average'", load_tasks, [file])


def test_two_encoders_of_one_name_are_refused():
    encoders = [WordSums(), WordSums(dim=5)]
    message = r"two different experiments called .* word-sums-0"
    refused(message, compare_small, encoders, "raw")


def test_a_folder_does_not_shadow_a_method(tmp_path, monkeypatch, pairs):
    own = SentenceEncoder()
    fitted = Truncation(n_components=2).fit(own.encode(["a", "b c", "d", "e f"]))
    Model(own, fitted).save(tmp_path / "whitening" / "model")
    monkeypatch.chdir(tmp_path)
    taken = run("whitening", tasks=pairs[0])
    assert taken.score("whitening", "one") == run(
        [make_map("whitening")], tasks=pairs[0]
    ).score("whitening", "one")
    folder = run("./whitening", tasks=pairs[0])
    assert set(folder.frame["method"]) == {"truncation of ./whitening"}


def test_a_score_is_of_one_setting(pairs, tmp_path):
    corpora = ["target", write_corpus(tmp_path / "own.txt", 300)]
    results = run("raw,whitening", tasks=pairs[0], corpus=",".join(corpora))
    frame = results.frame.query("method == 'whitening' and aggregation == 'wmean'")
    scores = [results.score("whitening", "one", corpus=name) for name in corpora]
    assert scores == frame["value"].tolist()
    assert 0 < results.score("raw", "one", "alignment") < 4
    wrong: list[tuple[str, Any, Any]] = [
        (r"score: .* one corpus \(target, .*own\.txt\)", ("whitening", "one"), {}),
        (r"score: received 'x'.*corpus", ("whitening", "one"), {"x": "target"}),
        ("method: received 'raww'.*'raw'", ("raww", "one"), {}),
        ("metric: received 'spearmen'", ("raw", "one", "spearmen"), {}),
        ("split: received 'dev'", ("raw", "one"), {"split": "dev"}),
    ]
    for message, given, columns in wrong:
        refused(message, results.score, *given, **columns)
