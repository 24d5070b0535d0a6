"""What may be compared: names, estimators, models and folders of models."""

from sklearn.pipeline import make_pipeline

from flowbert.experiments.plan import parse_methods
from flowbert.maps import MAPS, Flow, Whitening


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


def test_long_names_are_no_files():
    parameters = MAPS.options(Flow).items()
    options = [f"{name}={value}" for name, value in parameters if value is not None]
    flow = ":".join(["flow", *options])
    (method,) = parse_methods([f"{flow}+{flow}"])
    assert len(method.name) > 255  # more than a file name may have
    assert method.map.seeded
