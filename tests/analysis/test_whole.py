"""A whole analysis of vectors that are there, and its round trip through JSON."""

import json
import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from flowbert.analysis import Analysis, ScoredPairs, SentenceTokens, analysis_of
from flowbert.analysis.found import WordSpace
from flowbert.analysis.plain import from_plain, to_plain
from flowbert.analysis.whole import DRAWN
from flowbert.analysis.word_space import word_buckets, word_points

N = 60
TEXTS = [f"sentence number {i}" for i in range(N)]


def vectors(count: int = N) -> dict[str, torch.Tensor]:
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    return {"raw": x + 2, "whitening": x - x.mean(dim=0)}


def whole() -> Analysis:
    x, rng = vectors(), np.random.default_rng(0)
    buckets = word_buckets(x["raw"], torch.arange(N, 0, -1), bounds=(0, 20, 60))
    words = WordSpace(buckets, 0.5, word_points(x["raw"], buckets), [0.1, 0.7])
    pairs = ScoredPairs(rng.uniform(0, 4, 30), {name: rng.uniform(-1, 1, 30) for name in ("raw", "other")})
    return analysis_of(
        TEXTS,
        x,
        setting={"encoder": "mine", "layer_numbers": (1, 12)},
        fitted=7,
        words=words,
        bits={"flow": -1.5},
        pairs={"STSB dev": pairs},
    )


def test_every_part_is_there_and_comes_back_from_json() -> None:
    found = whole()
    for part in fields(found):
        assert getattr(found, part.name), part.name
    text = json.dumps(found.as_json(), allow_nan=False)
    again = Analysis.from_json(json.loads(text))
    assert again == found
    assert json.dumps(again.as_json()) == text


def test_what_was_not_measured_is_empty_and_comes_back() -> None:
    found = analysis_of(TEXTS, {}, setting={}, fitted=0)
    assert not found.spaces
    assert not found.bands
    assert found.words is None
    again = Analysis.from_json(json.loads(json.dumps(found.as_json(), allow_nan=False)))
    assert again == found
    short = {"setting": {}, "fitted": 0, "measured": 3}
    assert Analysis.from_json(short) == Analysis({}, 0, 3)


def test_a_figure_that_does_not_exist_comes_back_as_nan() -> None:
    tokens = SentenceTokens([3] * N, [1.0] * N, "words")
    found = analysis_of(TEXTS, vectors(), setting={}, fitted=0, tokens=tokens)
    assert math.isnan(found.norms["raw"].with_length)
    content = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert content["norms"]["raw"]["with_length"] is None
    assert math.isnan(Analysis.from_json(content).norms["raw"].with_length)


WHOLE: dict[str, Any] = {"setting": {}, "fitted": 0, "measured": 1}
WRONG: list[Any] = [{"setting": {}}, [1], {**WHOLE, "norms": {"raw": {}}}, {**WHOLE, "bits": {"flow": "x"}}]
WRONG += [{**WHOLE, "bits": 3}, {**WHOLE, "unknown": 3}]


@pytest.mark.parametrize("content", WRONG)
def test_content_of_another_form_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="no analysis: "):
        Analysis.from_json(content)


def test_raw_is_no_latent_and_moved_is_against_raw() -> None:
    found = whole()
    assert set(found.spaces) == {"raw", "whitening"}
    assert set(found.latents) == set(found.shapes) == {"whitening"}
    assert set(found.bands["STSB dev"]) == {"raw", "other"}
    for by_method in found.neighbours.values():
        raw = {near.text for near in by_method["raw"]}
        assert not any(near.moved for near in by_method["raw"])
        assert all(near.moved == (near.text not in raw) for near in by_method["whitening"])
    moved = [near.moved for by_method in found.neighbours.values() for near in by_method["whitening"]]
    assert any(moved)
    alone = analysis_of(TEXTS, {"flow": vectors()["raw"]}, setting={}, fitted=0)
    assert not any(near.moved for by_method in alone.neighbours.values() for near in by_method["flow"])


def test_what_is_drawn_is_bounded_and_maps_are_of_all() -> None:
    count = DRAWN + 50
    x = vectors(count)
    found = analysis_of([str(i) for i in range(count)], x, setting={}, fitted=0)
    points = found.points
    assert points is not None
    lengths = [len(points.sentences), len(points.lengths), len(points.frequencies)]
    lengths += [len(values) for values in points.norms.values()] + [len(places) for places in points.maps.values()]
    assert set(lengths) == {DRAWN}
    assert points.norms["raw"][7] == pytest.approx(float(x["raw"][7].norm()))
    part = analysis_of(points.sentences, {"raw": x["raw"][:DRAWN]}, setting={}, fitted=0).points
    assert part is not None
    assert part.maps["raw"] != points.maps["raw"]


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=f"vectors of raw have {N - 1} rows; allowed: {N}"):
        analysis_of(TEXTS, {"raw": vectors()["raw"][1:]}, setting={}, fitted=0)


def test_plain_values() -> None:
    assert to_plain((1, [math.inf, "x"], {2: None})) == [1, [None, "x"], {"2": None}]
    assert from_plain(dict[int, int | None], {"2": None}) == {2: None}
