"""An analysis of an encoder: held-out sentences, every method, files."""

import html
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.small import WordSums, compare_small
from flowbert.data.sample import sample_corpus
from flowbert.encoders import EncoderOptions
from flowbert.errors import FlowbertWarning
from flowbert.extras.analysis import MEASURES, Analysis
from flowbert.extras.analysis.analyze import analyze, analyze_results
from flowbert.extras.analysis.isotropy import project
from flowbert.extras.report import report
from flowbert.extras.word_vectors import WordVectors
from flowbert.maps import Whitening
from flowbert.model import Model
from flowbert.tasks import PairTask, load_task, load_tasks
from flowbert.vectors import EmbeddingCache
from helpers import draw_nothing, refused

SENTENCES = list(dict.fromkeys(sample_corpus()))[:500]
METHODS = ["raw", "whitening:shrinkage=0.1", "flow:epochs=1"]


def test_everything_is_measured_written_and_drawn(corpus, pairs, tmp_path, monkeypatch):
    draw_nothing(monkeypatch)
    output = tmp_path / "own.analysis.json"
    encoder = EncoderOptions(layers="first_last")
    options = {"tasks": pairs[0], "output": output}
    analysis = analyze(encoder, METHODS, corpus=corpus, limit=200, **options)
    assert list(analysis.frames) == list(MEASURES)
    assert analysis.setting["layers"] == "first_last"
    assert (analysis.setting["fitted"], analysis.setting["sentences"]) == (300, 200)
    assert analysis.frames["isotropy"]["method"].tolist() == METHODS
    raw, whitened, _ = analysis.frames["isotropy"]["mean_cosine"]
    assert raw > 0.5 > whitened
    again = Analysis.from_json(output)
    for name, frame in analysis.frames.items():
        pd.testing.assert_frame_equal(frame, again.frames[name], check_exact=True)
    assert report(output).is_file()


def test_maps_are_fitted_on_the_other_sentences(corpus, words):
    analysis = analyze(words, "raw,whitening", corpus=corpus, limit=200)
    measured = analysis.frames["sentences"].groupby("method").get_group("whitening")
    held_out = set(measured["sentence"])
    others = [text for text in SENTENCES if text not in held_out]
    assert (len(held_out), len(others)) == (200, 300)
    encoder = WordVectors(words)
    whitening = Whitening().fit(encoder.encode(others))
    places = project(whitening.transform(encoder.encode(list(measured["sentence"]))))
    # Vectors and their sums are in float32: some units of rounding.
    np.testing.assert_allclose(measured[["x", "y"]], places, atol=1e-4)
    assert set(measured["unit"]) == {"words"}
    assert not {"buckets", "words", "layers"} & set(analysis.frames)


@pytest.mark.filterwarnings("ignore:whitening. 109 directions in place of 128")
def test_what_cannot_be_fitted_is_left_out(tmp_path):
    """Half of 220 sentences are too few for a whitening of 128 dimensions, the default."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(list(dict.fromkeys(sample_corpus()))[:220]))
    output = tmp_path / "few.analysis.json"
    measures = "spectra,isotropy"
    with pytest.warns(FlowbertWarning, match="whitening was not analyzed: "):
        analysis = analyze(
            methods="raw,whitening,standardization",
            corpus=corpus,
            measures=measures,
            output=output,
        )
    same = analyze(methods="raw,standardization", corpus=corpus, measures=measures)
    for name, frame in same.frames.items():
        pd.testing.assert_frame_equal(analysis.frames[name], frame)
    (failure,) = analysis.setting["failures"]
    assert html.escape(failure) in report(output).read_text()
    refused("methods: whitening was not", analyze, methods="whitening", corpus=corpus)


def test_cosines_are_those_of_the_task(corpus, words):
    options = {"corpus": corpus, "tasks": "SAMPLE", "limit": 50}
    bands = analyze(words, "raw,truncation-8", **options).frames["band_cosines"]
    (task,) = load_tasks("SAMPLE")
    assert bands["pairs"].sum() == 2 * task.count
    raw, same = (frame["median"].to_numpy() for _, frame in bands.groupby("method"))
    np.testing.assert_array_equal(raw, same)


class Level(PairTask):
    metrics = (("level", "all"),)
    headline = "level"

    def score(self, items):
        return {self.metrics[0]: float(items.mean())}


def test_tasks_of_one_name_are_kept_apart(pairs):
    """In any order; the next commands are those of the first verdict."""
    lexical, scored = load_task(f"lexical:{pairs[0]}"), load_task(pairs[0])
    tasks = [lexical, Level("one", *scored.pairs()), scored]
    results = compare_small(WordSums(), "raw,zca", tasks=tasks, bootstrap=20)
    assert (len(results.verdicts), len(results.about["used"])) == (2, 1)
    analysis = analyze_results(results)
    assert set(analysis.frames["band_cosines"]["method"]) == {"raw", "zca"}
    assert analysis.setting["encoder"] == "word-sums-0"


def test_fitted_maps_and_models_are_used_as_they_are(corpus, words):
    encoder = WordVectors(words)
    fitted = Whitening(4).fit(encoder.encode(SENTENCES))
    frames = [
        analyze(encoder, [method], corpus=corpus, limit=50, seed=seed).frames["spectra"]
        for method, seed in [(fitted, 0), (Model(encoder, fitted), 0), (fitted, 1)]
    ]
    first, same, other = (frame["eigenvalue"].tolist() for frame in frames)
    assert first == same != other
    refused(
        "encoder: received another one",
        analyze,
        methods=[Model(encoder, fitted)],
        corpus=corpus,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measures": "spectre"}, "measures: received 'spectre'.*spectra"),
        ({"output": "analysis.json"}, "output: received analysis.json"),
        ({"corpus": "few.txt"}, "corpus: received 1 distinct"),
        ({"encoder": EncoderOptions(layers=["last", "first_last"])}, "encoder: rec"),
    ],
)
def test_mistakes_are_named_before_anything_is_encoded(
    options, message, tmp_path, monkeypatch
):
    monkeypatch.setattr(EmbeddingCache, "fill", None)
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("a dog runs\n" * 300)
    refused(message, analyze, **options)
