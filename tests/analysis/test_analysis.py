"""A whole analysis of vectors, and its files."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.analysis import Analysis
from flowbert.analysis.frames import COLUMNS
from flowbert.analysis.spaces import corpus_map
from flowbert.analysis.vectors import DRAWN_SENTENCES, analyze_vectors
from flowbert.analysis.words import word_buckets, word_points
from flowbert.errors import UserError

N = 60


def vectors(count: int = N) -> dict[str, torch.Tensor]:
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    return {"raw": x + 2, "whitening": x - x.mean(dim=0)}


def texts(count: int = N) -> list[str]:
    return [f"sentence number {i}" for i in range(count)]


@pytest.fixture(scope="module")
def whole() -> Analysis:
    x, rng = vectors()["raw"], np.random.default_rng(0)
    cosines = {name: rng.uniform(-1, 1, 30) for name in ("raw", "other")}
    layers = pd.DataFrame({"layer": ["input", "0"], "mean_cosine": [0.5, 0.1]})
    return analyze_vectors(
        texts(),
        vectors(),
        setting={"encoder": "bert", "layers": [1, 12]},
        buckets=word_buckets(x),
        words=word_points(x),
        layers=layers,
        bits={"flow": -1.5, "Gaussian": math.inf},
        pairs={"STSB dev": (rng.uniform(0, 4, 30), cosines)},
    )


def test_everything_is_measured_and_survives_json(
    whole: Analysis, tmp_path: Path
) -> None:
    assert set(whole.frames) == set(COLUMNS)
    path = tmp_path / "analysis.json"
    whole.to_json(path)
    again = Analysis.from_json(path)
    assert again.setting == whole.setting
    for name, frame in whole.frames.items():
        expected = frame.replace(math.inf, math.nan)
        pd.testing.assert_frame_equal(expected, again.frames[name], check_exact=True)


def test_what_was_not_measured_is_empty() -> None:
    analysis = analyze_vectors([], {}, setting={"encoder": "bert"})
    assert not analysis.frames
    assert list(analysis.spectra.columns) == COLUMNS["spectra"].split()


def test_raw_is_no_latent(whole: Analysis) -> None:
    for frame in (whole.measures, whole.spectra, whole.norms, whole.sentences):
        assert set(frame["method"]) == {"raw", "whitening"}
    for frame in (whole.latents, whole.latent_norms, whole.latent_moments):
        assert set(frame["method"]) == {"whitening"}
    assert set(whole.bands["method"]) == {"raw", "other"}
    assert whole.spectra["share"].sum() == pytest.approx(2)


def test_drawn_sentences_are_bounded_and_the_map_is_of_all() -> None:
    count = DRAWN_SENTENCES + 50
    x = vectors(count)["raw"]
    analysis = analyze_vectors(texts(count), {"raw": x}, setting={})
    drawn = analysis.sentences
    assert drawn["sentence"].tolist() == texts(DRAWN_SENTENCES)
    assert drawn["norm"][7] == pytest.approx(float(x[7].norm()))
    np.testing.assert_array_equal(drawn[["x", "y"]], corpus_map(x)[:DRAWN_SENTENCES])
    assert analysis.setting["sentences"] == count


def test_wrong_calls() -> None:
    with pytest.raises(
        ValueError, match=f"raw: received {N - 1} vectors; expected {N}"
    ):
        analyze_vectors(texts(), {"raw": vectors()["raw"][1:]}, setting={})
    with pytest.raises(UserError, match="map: received 'tsne'"):
        analyze_vectors(texts(), vectors(), setting={}, kind="tsne")
    with pytest.raises(TypeError, match="spectrum"):
        Analysis({}, spectrum=pd.DataFrame())


BITS = {"density": ["flow"], "bits": [1.5]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe{}",
        b"[1]",
        b"{}",
        b'{"setting": 1}',
        {"bits": 3},
        {"bits": {"flow": 1.5}},
        {"bits": {"density": ["flow"]}},
        {"bits": {**BITS, "bits": ["much"]}},
        {"bits": {**BITS, "bits": [1.5, 2.5]}},
        {"bits": {**BITS, "bits": [[1.5]]}},
        {"words": {"ranks": ["0 to 9"], "rank": [None], "x": [1], "y": [1]}},
        {"words": {"ranks": ["0 to 9"], "rank": [10**30], "x": [1], "y": [1]}},
    ],
)
def test_damaged_and_foreign_files(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    if isinstance(content, dict):
        content = json.dumps({"setting": {}, **content}).encode()
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"analysis\.json: "):
        Analysis.from_json(path)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(st.text(max_size=3), SCALARS)
)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), name=st.sampled_from(["bits", "words", "neighbours", "setting"]))
def test_any_json_is_an_analysis_or_a_user_error(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    columns = st.fixed_dictionaries(
        dict.fromkeys(COLUMNS.get(name, "").split(), VALUES)
    )
    path = tmp_path_factory.getbasetemp() / "analysis.json"
    path.write_text(json.dumps({"setting": {}, name: data.draw(columns | VALUES)}))
    try:
        analysis = Analysis.from_json(path)
    except UserError:
        return
    assert analysis.words["rank"].dtype == "int64"
    assert analysis.bits["bits"].dtype == "float64"
