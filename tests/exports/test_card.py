"""The README of an export: what the hub reads of it, and the figures with their intervals."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.encoders import make_encoder
from huggingface_hub import ModelCard

from flowbert import SentenceEncoder, Whitening
from flowbert.encoders.after_pooling import AfterPooling, Normalize
from flowbert.evaluation.results import Row
from flowbert.exports.card import model_card
from flowbert.methods import Embedder


@pytest.fixture
def model(tmp_path: Path) -> Embedder:
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "mine")), layers="first_last")
    words = ("a", "the", "cat", "dog", "runs", "sleeps")
    texts = [f"{one} {two} {three}" for one in words for two in words for three in words]
    return Embedder(encoder, Whitening(shrinkage=0.5).fit(encoder.encode(texts)))


def rows() -> list[Row]:
    one = Row(
        "whitening", "enc", "first_last", "mean", "target", "STSB", "test", "all", 0.61234, 9, layer_numbers=(1, 3)
    )
    one = replace(one, low=0.55, high=0.65)
    return [
        replace(one, method="raw", corpus="none", value=0.5, low=0.45, high=0.55),
        one,
        replace(one, split="dev", value=0.7, low=math.nan, high=math.nan),
        replace(one, task="STS12", value=0.4),
        replace(one, method="flow", value=0.99),
        replace(one, layers="last", layer_numbers=(3,), value=0.98),
        replace(one, pooling="max", value=0.97),
        replace(one, task="STS13", value=math.nan, low=math.nan, high=math.nan),
    ]


@pytest.mark.parametrize("format", ["sentence-transformers", "onnx", "onnx-int8"])
def test_the_hub_reads_back_what_was_measured(model: Embedder, format: str) -> None:
    model.encoder.path = "owner/base@v1"
    text = model_card(model, format=format, method="whitening", name="user/name", rows=rows(), license="apache-2.0")
    data: Any = ModelCard(text).data
    assert (data.license, data.base_model, data.model_name) == ("apache-2.0", "owner/base", "name")
    assert data.pipeline_tag == "sentence-similarity"
    assert data.library_name == data.tags[0] == format.removesuffix("-int8")
    found = {(each.dataset_type, each.dataset_split, each.metric_value) for each in data.eval_results or []}
    assert found == {("STSB", "test", 0.6123), ("STSB", "dev", 0.7), ("STS12", "test", 0.4)}
    assert {each.metric_type for each in data.eval_results or []} == {"spearman_cosine"}
    assert all(each.dataset_name == f"{each.dataset_type} {each.dataset_split}" for each in data.eval_results or [])


def test_figures_stand_beside_raw_with_intervals_where_there_are_any(model: Embedder) -> None:
    text = model_card(model, format="onnx", method="whitening", name="here/my-model", rows=rows())
    assert "| STSB | test | all | 50.00 [45.0, 55.0] | 61.23 [55.0, 65.0] |" in text
    assert "| STSB | dev | all |  | 70.00 |" in text
    for other in ("99.00", "98.00", "97.00"):
        assert other not in text


def test_nothing_of_this_machine_and_no_figures_without_any(model: Embedder, tmp_path: Path) -> None:
    text = model_card(model, format="sentence-transformers", method="whitening", name="my-model", rows=[])
    assert str(tmp_path) not in text
    assert "## Figures" not in text
    data: Any = ModelCard(text).data
    assert (data.base_model, data.eval_results, data.license) == (None, None, None)


def test_the_limit_of_position_0_and_how_it_is_loaded(model: Embedder) -> None:
    def card(pooling: str, method: str, format: str = "sentence-transformers") -> str:
        encoder = SentenceEncoder(model.encoder.backbone, model.encoder.tokenizer, pooling=pooling, path="mine")
        return model_card(Embedder(encoder), format=format, method=method, name="my-model", rows=[])

    told = "itself holds `[CLS]`"
    assert told in card("cls", "whitening+flow")
    for other in (card("mean", "flow"), card("cls", "whitening"), card("cls", "flow", "onnx")):
        assert told not in other
    assert "With flowbert: `flowbert.load(" in card("cls", "flow")
    own = SentenceEncoder(model.encoder.backbone, model.encoder.tokenizer, after_pooling=AfterPooling([Normalize()]))
    text = model_card(Embedder(own), format="sentence-transformers", method="raw", name="my-model", rows=[])
    assert "| modules after it | all |" in text
    assert "flowbert.load(" not in text
