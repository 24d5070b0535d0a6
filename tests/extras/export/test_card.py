"""README.md of an export: what hub and readers take from it."""

from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from extras.export.models import TEXTS, model_of
from flowbert import __version__
from flowbert.encoders import SentenceEncoder
from flowbert.experiments import compare
from flowbert.experiments.intervals import GAIN, RESULT_COLUMNS
from flowbert.experiments.results import Results
from flowbert.extras.export import export
from flowbert.extras.export.card import find_method, model_card
from flowbert.extras.export.sentence_transformers import SentenceTransformers
from flowbert.extras.views import ViewsEncoder
from flowbert.maps import Raw
from flowbert.model import Model
from flowbert.tasks import AVERAGE, Pairs, Record
from helpers import refused

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:max_length. .* were cut")

PAIRS = Pairs(TEXTS[:3], TEXTS[3:6], [1, 2, 3])
MAP = "learned-removal-2:center=false"
SETTINGS: dict[str, Any] = {
    "name": "owner/name",
    "library": "sentence-transformers",
    "usage": "",
    "method": MAP,
    "difference": 3e-7,
}


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder("builtin-sample", layers="first_last", max_length=9)


@pytest.fixture(scope="module")
def model(encoder):
    return model_of(encoder, MAP)


def results_of(encoder):
    """Scores of three methods, one of another reading, one of another encoder."""
    row = dict.fromkeys(RESULT_COLUMNS, "") | encoder.columns()
    row |= {"seed": None, "pairs": 9, "split": "test", "corpus": "target"}
    row |= dict.fromkeys(["std", *GAIN], np.nan)
    row |= {"supervised": False, "metric": "spearman", "aggregation": "all"}
    rows = []
    values = {"raw": 0.5, MAP: 0.625, "zca": 0.75}
    for method, value in values.items():
        interval = {"value": value, "low": value - 0.125, "high": value + 0.125}
        rows.append(row | interval | {"method": method, "task": "STSB"})
        rows.append(rows[-1] | {"task": AVERAGE, "low": np.nan, "high": np.nan})
    rows.append(rows[2] | {"layers": "last", "value": 0.875})
    rows.append(rows[2] | {"encoder": "other", "value": 0.875})
    same = {"identity": encoder.identity}
    record = Record(np.empty(0), {}, columns=rows[0], settings={"encoder": same})
    return Results(rows, {}, [record])


def test_settings_and_scores(model, encoder):
    plain = model_card(model, **SETTINGS)
    for part in ("first_last", MAP, "3.0e-07", __version__):
        assert part in plain
    assert "Scores" not in plain
    other = Model(encoder.read(sink_token="the"))
    for part in ("| map | none |", "| sink_token | the |"):
        assert part in model_card(other, **SETTINGS)
    text = model_card(model, **SETTINGS, results=results_of(encoder), license="mit")
    data: Any = ModelCard(text).data
    assert (data.license, data.library_name) == ("mit", "sentence-transformers")
    assert f"| STSB | test | {MAP} | target | 62.50 [50.0, 75.0] |" in text
    assert f"| average | test | {MAP} | target | 62.50 |" in text
    assert "| STSB | test | raw | target | 50.00 [37.5, 62.5] |" in text
    assert "zca" not in text
    assert "87.5" not in text


def test_its_snippet_runs(model, tmp_path, monkeypatch):
    folder = export(model, tmp_path / "name")
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["embeddings"].shape == (2, 128)


@pytest.mark.parametrize(
    ("reading", "skipped"),
    [
        ({"layers": "last"}, ""),
        ({"layers": "embedding_last"}, "WeightedLayerPooling"),
        ({"layers": "last", "pooling": "zipf"}, "WordWeights"),
    ],
)
def test_modules_that_servers_skip_are_named(encoder, reading, skipped):
    model = model_of(encoder.read(**reading), "whitening:shrinkage=0.5")
    usage = SentenceTransformers().usage("name", model)
    assert ("text-embeddings-inference" in usage) == bool(skipped)
    assert f"skip its {skipped}" in usage or not skipped


def test_views():
    views = [{"layers": layer, "template": "the {} in"} for layer in (0, "last")]
    encoder = ViewsEncoder(views=views)
    name = "views:maps=[nulling-1+centering|raw]"
    results = results_of(encoder)
    results.frame["method"] = results.frame["method"].replace({MAP: name})
    card = SETTINGS | {"method": name, "results": results}
    text = model_card(model_of(encoder, name), **card)
    cell = name.replace("|", r"\|")
    for row in (
        r"| layers | 0 \| last |",
        "| template | 'the {} in' |",
        f"| map | {cell} |",
        f"| STSB | test | {cell} | target | 62.50 [50.0, 75.0] |",
    ):
        assert row in text


def test_scores_of_results_are_of_the_same_encoder_and_map(encoder, model, tmp_path):
    """Another number or another option is another map, another reading another encoder."""
    methods = ["raw", "nulling-2", model.map]
    results = compare(encoder, methods, tasks=[PAIRS], bootstrap=0)
    assert find_method(results, model) == MAP
    assert find_method(results, Model(encoder)) == "raw"
    results.save(tmp_path / "r.json")
    other = Model(encoder.read(layers="last"), model.map)
    to = {"to": tmp_path / "to", "results": tmp_path / "r.json"}
    refused("results: received no scores of learned-removal", export, other, **to)
    page = (export(model, **to) / "README.md").read_text()
    assert f"| {PAIRS.name} | test | {MAP} |" in page


def test_scores_of_a_run_with_a_trained_encoder(encoder, tmp_path):
    encoder.save(tmp_path / "run" / "model" / "encoder")
    trained = SentenceEncoder(tmp_path / "run")
    results = compare(trained, {"simcse": Raw()}, tasks=[PAIRS], bootstrap=0)
    results.save(tmp_path / "run" / "results.json")
    text = (export(tmp_path / "run", tmp_path / "to") / "README.md").read_text()
    assert "test | simcse |" in text
