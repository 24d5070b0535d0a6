"""Comparisons: scores, what is computed once, what is kept, and mistakes."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pandas.testing import assert_frame_equal
from sklearn.decomposition import PCA

from experiments.small import WordSums, write_corpus, write_pairs
from experiments.small import compare_small as run
from flowbert.encoders import EncoderOptions
from flowbert.experiments import Results
from flowbert.experiments.intervals import RESULT_COLUMNS
from flowbert.experiments.plan import VERSIONS
from flowbert.maps import Chain, Raw, make_map
from flowbert.tasks import STS, load_task
from helpers import draw_nothing

COMPARING = sys.modules["flowbert.experiments.run"]
FLOW = "flow:levels=1:depth=1:width=4:steps=3"


def test_each_sentence_is_encoded_once(encoder, pairs, tmp_path):
    methods = "raw,whitening,zca,whitening-3+standardization"
    corpora = f"target,{write_corpus(tmp_path / 'corpus.txt', 100)}"
    results = run(encoder, methods, tasks=pairs, corpus=corpora)
    assert len(encoder.encoded) == len(set(encoder.encoded))
    scores = results.frame.query("aggregation == 'wmean'")["value"]
    assert len(scores) == 7 * 3  # the average, too
    assert scores.notna().all()
    assert list(results.frame.columns) == list(RESULT_COLUMNS)
    assert results.frame[["low", "high"]].isna().all(axis=None)  # no resamples
    assert results.verdicts == []


class StoppedError(Exception):
    """Raised in the middle of a comparison."""


def stop_at(count, monkeypatch):
    """Raise before a fit; the fits so far."""
    fits: list[str] = []
    fit = COMPARING.fit_experiment

    def counted(experiment, *others):
        if len(fits) == count:
            raise StoppedError
        fits.append(f"{experiment.method.name} {experiment.task.name}")
        return fit(experiment, *others)

    monkeypatch.setattr(COMPARING, "fit_experiment", counted)
    return fits


def test_finished_cells_are_not_computed_again(output, pairs, monkeypatch):
    finished = 2
    methods = f"raw,whitening,{FLOW}"
    whole = run(WordSums(), methods, tasks=pairs, output=output.with_name("whole.json"))
    with monkeypatch.context() as patch:
        stop_at(finished, patch)
        with pytest.raises(StoppedError):
            run(WordSums(), methods, tasks=pairs, output=output)
    fits = stop_at(99, monkeypatch)
    encoder = WordSums()
    again = run(encoder, methods, tasks=pairs, output=output)
    assert len(fits) == 5 - finished  # raw is one map for both tasks
    assert_frame_equal(again.frame, whole.frame)
    # A third run computes nothing at all, and says so; a fourth one what is new.
    encoder.encoded.clear()
    told: list[str] = []
    monkeypatch.setattr(COMPARING, "tell", told.append)
    run(encoder, methods, tasks=pairs, output=output)
    assert encoder.encoded == []
    assert told == ["6 of 6 experiments were known"]
    results = run(encoder, "raw,zca,whitening", tasks=pairs[0], output=output)
    assert fits[5 - finished :] == ["zca one"]
    assert set(results.vectors) == {"raw", "zca", "whitening"}


class Weighted(Raw):
    """A custom map: what it does is not in flowbert's digest of its source."""

    power = 1

    def _apply(self, rows):
        return rows * torch.arange(rows.shape[1]) ** self.power


class OwnTask(STS):
    """A custom task."""

    power = 1

    def items(self, vectors):
        return super().items(vectors * torch.arange(vectors.shape[1]) ** self.power)


class OwnSpearman(OwnTask):
    """A custom task with a metric called spearman, which no average contains."""

    averaged = False


@pytest.mark.parametrize(("others", "lead"), [(1, "one"), (2, "average")])
def test_a_task_that_no_average_contains_does_not_lead(others, lead, encoder, pairs):
    task: Any = load_task(pairs[1])
    own = OwnSpearman(task.data)
    own.name = "own"
    tasks = [own, *pairs[:others]]
    results = run(encoder, "raw,whitening", tasks=tasks, bootstrap=20)
    assert results.summary.lead == lead
    assert len(results.verdicts) == 2


@pytest.mark.parametrize("kind", ["map", "task", "fitted"])
def test_what_custom_code_computes_is_computed_again(kind, output, pairs, monkeypatch):
    task: Any = load_task(pairs[0])
    fitted = PCA(n_components=2).fit(WordSums().encode(task.sentences))
    methods: dict[str, Any] = {
        "map": Chain.of(Weighted(), make_map("zca:shrinkage=0.5")),
        "task": "zca",
        "fitted": fitted,
    }
    tasks = [OwnTask(task.data)] if kind == "task" else [task]
    scores = []
    for power in (1, 2):
        for each in (Weighted, OwnTask):
            monkeypatch.setattr(each, "power", power)
        fitted.components_[0] *= power
        results = run(WordSums(), {"own": methods[kind]}, tasks=tasks, output=output)
        scores.append(results.score("own", "one"))
    assert scores[0] != scores[1]


def test_every_setting_stands_in_the_results_in_words(output, pairs, tmp_path):
    corpus = write_corpus(tmp_path / "own.txt", 300)
    methods = f"raw,whitening:shrinkage=0.1,{FLOW}"
    given = {"max_sentences": 100, "seeds": [3, 4], "corpus": corpus}
    limits = {"uniformity_limit": 50, "positive_above": 0.5, "score_range": [0, 5]}
    run(WordSums(), methods, tasks=pairs[0], **given, **limits, output=output)
    results = Results.load(output)
    assert given.items() <= results.about["config"].items()
    settings = results.records[-1].settings
    assert settings["encoder"]["identity"] == WordSums().identity
    assert settings["corpus"]["sentences"] == 100
    assert settings["versions"] == VERSIONS
    task = settings["task"]
    assert (task["score_range"], task["positive_score"]) == ([0, 5], 2.5)
    assert {each.settings["seed"] for each in results.records} == {None, 3, 4}


def test_seeds(encoder, pairs):
    results = run(encoder, f"raw,{FLOW}", tasks=pairs[0], seeds=[0, 1])
    spearman = results.frame.query("metric == 'spearman' and aggregation == 'wmean'")
    flows = spearman[spearman["method"] == FLOW]
    assert flows["seed"].tolist() == [0, 1, pd.NA]
    assert flows["value"].nunique() == 3
    assert flows["std"].iloc[2] == pytest.approx(flows["value"][:2].std())
    assert spearman.query("method == 'raw'")["seed"].isna().all()
    assert results.score(FLOW, "one") == pytest.approx(flows["value"].mean())
    one = run(encoder, FLOW, tasks=pairs[0], seeds=1)
    assert one.score(FLOW, "one") == flows["value"].iloc[1]
    # A seed without a score leaves no mean.
    results.frame.loc[flows.index[1], "value"] = np.nan
    assert np.isnan(results.score(FLOW, "one"))
    assert np.isfinite(results.score(FLOW, "one", seed=0))


def test_maps_learn_from_what_they_are_given(encoder, pairs):
    removal = "learned-removal-2"
    options: dict[str, Any] = {"tasks": pairs[0], "labels": pairs[1]}
    results = run(encoder, f"raw,{removal}", **options)
    task, other = load_task(pairs[0]), load_task(pairs[1])
    assert isinstance(other, STS)
    left, right = (encoder.encode(side) for side in other.pairs())
    rows = encoder.encode(task.corpus("target").sentences)
    fitted = make_map(removal).fit(rows, pairs=(left, right, other.gold))
    vectors = torch.from_numpy(fitted.transform(encoder.encode(task.sentences)))
    expected = task.measure(vectors).scores["spearman", "wmean"]
    assert results.score(removal, "one") == expected
    frame = results.frame.set_index("method")["supervised"]
    assert frame[removal].all()
    assert not frame["raw"].any()


def test_the_analysis_is_of_a_sample_of_the_sentences(encoder, output, monkeypatch):
    monkeypatch.setattr(COMPARING, "SAMPLE_SIZE", 40)
    task = load_task("SAMPLE")
    results = run(encoder, "raw,whitening", output=output)
    assert len(set(results.sentences)) == 40
    assert set(results.sentences) < set(task.sentences)
    raw = results.vectors["raw"].numpy()
    # A map of float64 rows, rounded to float32.
    np.testing.assert_allclose(raw, encoder.encode(results.sentences), rtol=2**-23)
    fitted = make_map("whitening").fit(encoder.encode(task.corpus("target").sentences))
    expected = fitted.transform(encoder.encode(results.sentences))
    np.testing.assert_allclose(results.vectors["whitening"], expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:whitening. 5 directions in place of 6")
def test_methods_without_meaning_have_a_reason(encoder, output, pairs, tmp_path):
    """Nor are they averaged with other tasks, or shown in the analysis."""
    tasks = [write_pairs(tmp_path / "few.tsv", count=3), pairs[0]]
    given: dict[str, Any] = {"tasks": tasks, "bootstrap": 20, "output": output}
    results = run(encoder, "raw,whitening", **given)
    rows = results.frame.query("method == 'whitening'").set_index("task")
    few = rows.loc["few"]
    assert few["value"].isna().all()
    assert few["reason"].str.startswith("whitening of N=6 distinct sentences").all()
    assert rows.loc["one", "value"].notna().any()
    assert rows.loc["average", "value"].isna().all()
    assert results.verdicts == []
    assert "whitening" not in results.vectors
    again = run(encoder, "raw,whitening", **given)
    assert_frame_equal(again.frame, results.frame)
    assert again.about["warnings"] == results.about["warnings"] != []


def test_a_file_of_results_has_a_page(encoder, output, pairs, monkeypatch):
    draw_nothing(monkeypatch)
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    run(encoder, tasks=pairs[0], output=output)
    assert "whitening" in output.with_suffix(".html").read_text()


def test_where_tokens_are_counted_the_corpus_has_an_effect_without_a_map(tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv", count=40)
    corpus = write_corpus(tmp_path / "corpus.txt", 60)
    idf = EncoderOptions(pooling="idf")
    scores = set()
    for size in (None, 9):
        results = run(idf, "raw", tasks=pairs, corpus=corpus, max_sentences=size)
        scores.add(results.score("raw", "pairs", pooling="idf"))
    assert len(scores) == 2
