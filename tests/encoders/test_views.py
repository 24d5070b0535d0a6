"""Views of a network side by side, and the map of each."""

from typing import Any

import numpy as np
import pytest
import torch

from encoders.tiny import (
    SENTENCES,
    assert_near,
    write_tiny,
)
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.extras.views import ViewsEncoder
from flowbert.maps import make_map
from flowbert.model import Model
from helpers import refused

TEMPLATE = 'the big "{}" in a mat'
VIEWS: list[dict[str, Any]] = [
    {"layers": "last", "pooling": "last_token", "template": TEMPLATE},
    {"layers": 1, "pooling": "zipf", "template": TEMPLATE},
    {"layers": 0, "template": ""},
]
TEXTS = [
    f"the {a} {b} {c}"
    for a in ["a", "cat", "dog"]
    for b in ["runs", "sings", "on"]
    for c in ["mat", "not", "in"]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("views") / "llama", "llama")


def test_views_are_those_encoders_side_by_side(folder):
    views = open_encoder(EncoderOptions(str(folder), views=VIEWS))
    assert isinstance(views, ViewsEncoder)
    alone = [SentenceEncoder(folder, **view).encode(SENTENCES) for view in VIEWS]
    together = views.encode(SENTENCES)
    assert_near(together, np.concatenate(alone, axis=1))
    assert views.columns()["pooling"] == "last_token | zipf | mean"
    passes = {view.backbone_key for view in views.views}
    assert len(passes) == 2  # one for each template


def test_a_cosine_is_the_weighted_mean_of_those_of_the_views(folder):
    encoder = ViewsEncoder(folder, views=VIEWS)
    rows = encoder.encode(TEXTS)
    maps = ("whitening:shrinkage=0.5", "centering", "nulling-1+whitening-4")
    text = f"views:maps=[{'|'.join(maps)}]:weights=1|0.5|2"
    mapped = make_map(text).fit_transform(rows)
    assert mapped.shape == (len(TEXTS), 16 + 16 + 4)
    blocks = [
        make_map(each).fit_transform(block)
        for each, block in zip(maps, np.split(rows, 3, axis=1), strict=True)
    ]
    weights = (1, 0.25, 4)
    expected = sum(
        weight * torch.cosine_similarity(block[:1], block[1:]).numpy()
        for weight, block in zip(weights, map(torch.from_numpy, blocks), strict=True)
    ) / sum(weights)
    first, others = torch.from_numpy(mapped[:1]), torch.from_numpy(mapped[1:])
    found = torch.cosine_similarity(first, others)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_model_of_views_is_saved_and_truncated(folder, tmp_path):
    encoder = ViewsEncoder(folder, views=VIEWS)
    text = "views:maps=[nulling-1+whitening:shrinkage=0.5|raw|raw]+whitening-8:shrinkage=0.1"
    model = Model(encoder, make_map(text).fit(encoder.encode(TEXTS)))
    model.save(tmp_path / "model")
    expected = model.encode(SENTENCES)
    assert expected.shape == (len(SENTENCES), 8)
    loaded = Model.load(tmp_path)
    assert_near(loaded.encode(SENTENCES), expected)
    refused(
        "encoder: received another one",
        Model.load,
        tmp_path,
        encoder=str(write_tiny(tmp_path / "other", "llama", 1)),
    )


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([], "views: received "),
        ([{"layer": 1}], "views: received .*'layer'.*; expected mappings with layers"),
        ([{"pooling": "idf"}], "pooling: received 'idf' without sentences to count"),
    ],
)
def test_wrong_views(views, message, folder):
    refused(message, ViewsEncoder, folder, views=views)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("views:maps=flow|raw", "received flow; expected maps in closed form"),
        ("views:weights=1", "2 positive numbers"),
        ("views:weights=1|-1", "2 positive numbers"),
        ("views:maps=no|raw", "maps: received 'no'"),
    ],
)
def test_wrong_maps(text, message):
    refused(message, make_map(text).fit, np.random.default_rng(0).normal(size=(50, 8)))


def test_a_reading_of_all_views_is_refused():
    """It would have no effect: each view has its own."""
    views = [{"layers": 1}, {"pooling": "cls"}]
    readings: dict[str, Any] = {
        "layers": "last",
        "pooling": "max",
        "template": "a {}",
        "sink_token": "",
    }
    for name, value in readings.items():
        options = EncoderOptions(views=views, **{name: value})
        refused(f"received {name} with views", open_encoder, options)
