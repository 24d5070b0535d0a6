"""What may be compared: names, estimators, models and folders of models."""

import numpy as np
from sklearn.pipeline import make_pipeline

from experiments.small import WordSums, compare_small
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.experiments.plan import parse_methods
from flowbert.maps import MAPS, Flow, Whitening
from flowbert.model import Model
from helpers import refused


def test_names_and_estimators():
    whitening = Whitening(n_components=3, shrinkage=0.1)
    pipeline = make_pipeline(Whitening(n_components=4), Flow(epochs=1))
    methods = parse_methods(["raw", whitening, pipeline, "learned-removal-2"])
    names = ["raw", "whitening-3:shrinkage=0.1", "whitening-4+flow:epochs=1"]
    assert [method.name for method in methods] == [*names, "learned-removal-2"]
    assert [method.needs_fit for method in methods] == [False, True, True, True]
    named = parse_methods({"mine": whitening, "theirs": "whitening"})
    assert [method.name for method in named] == ["mine", "theirs"]
    assert [method.name for method in parse_methods(" raw , zca")] == ["raw", "zca"]


def test_models_need_different_names(pairs):
    """Also two models of one encoder, with maps of one kind."""
    rows = np.random.default_rng(0).normal(size=(50, WordSums().dim))
    maps = [Whitening(shrinkage=shrinkage).fit(rows) for shrinkage in (0.1, 0.9)]
    models = [Model(WordSums(), fitted) for fitted in maps]
    for methods in (models, [Model(WordSums()), Model(WordSums(1))]):
        refused(r"methods=\{\"a\": model, \"b\": model\}", parse_methods, methods)
    results = compare_small(
        WordSums(), {"a": models[0], "b": models[1]}, tasks=pairs[0]
    )
    assert set(results.frame["method"]) == {"a", "b"}
    assert results.score("a", "one") != results.score("b", "one")


def test_raw_is_the_reference_by_whatever_name(pairs):
    """A dict names the methods; without raw there is no verdict, and no gain over it."""
    options = {"tasks": pairs[0], "bootstrap": 20}
    methods = {"map": "zca", "plain": "raw"}
    results = compare_small(WordSums(), methods, **options)
    plain = compare_small(WordSums(), "zca,raw", **options)
    assert results.verdicts == [
        line.replace("zca", "map").replace("raw", "plain") for line in plain.verdicts
    ]
    rows = results.frame.set_index("method")["role"]
    assert set(rows["plain"]) == {"reference"}
    cls = EncoderOptions(pooling="cls", max_length=99)
    results = compare_small(cls, {"plain": "raw"}, **options)
    assert set(results.summary.rows["label"]) == {"plain", "pooling cls"}
    trained = Model(SentenceEncoder(pooling="cls"))
    results = compare_small(cls, {"raw": "raw", "trained": trained}, **options)
    assert "reading" in set(results.frame["role"])
    results = compare_small(WordSums(), "zca,centering", **options)
    assert results.verdicts == ["no verdict: raw has no score, or is not compared"]
    assert "over raw" not in repr(results)
    assert len(results.differences) == 1


def test_long_names_are_no_files():
    parameters = MAPS.options(Flow).items()
    options = [f"{name}={value}" for name, value in parameters if value is not None]
    flow = ":".join(["flow", *options])
    (method,) = parse_methods([f"{flow}+{flow}"])
    assert len(method.name) > 255  # more than a file name may have
    assert method.map.seeded
