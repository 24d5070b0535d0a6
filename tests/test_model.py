"""A model in memory and in its folder."""

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.decomposition import PCA

from encoders.tiny import SENTENCES, write_tiny
from extras.export.models import FLOW, TEXTS, fit_map, model_of
from flowbert.encoders import EncoderOptions, SentenceEncoder, load_encoder
from flowbert.encoding import encode
from flowbert.extras.maps.all_but_the_top import RemoveDirections
from flowbert.maps import (
    Flow,
    Map,
    Truncation,
    Whitening,
    as_map,
    save_map,
)
from flowbert.model import Model, load_fitted
from helpers import refused

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

MAPS = ["whitening-6:shrinkage=0.1", FLOW, f"standardization+{FLOW}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder with models of one encoder, beside it."""
    path = tmp_path_factory.mktemp("models")
    encoder = SentenceEncoder(
        write_tiny(path / "bert"), pooling="idf", count_over=TEXTS
    )
    rows = encoder.encode(TEXTS)
    for fitted in (None, *(fit_map(text, rows) for text in MAPS)):
        Model(encoder, fitted).save(path / "run" / "model")
    return path


NO_SENTENCES = [
    *(5, b"dog", {"a": "dog"}, {"dog"}, [None], ["dog", float("nan")], [b"dog"]),
    *([["dog"]], np.array([["dog"]])),
    *(pd.Series(["dog", np.nan]), pd.DataFrame({"a": ["dog"]})),
]


def test_what_is_no_list_of_sentences_and_no_size(folder):
    whitening = Model.load(folder / "run", "whitening")
    for given in NO_SENTENCES:
        for call in (whitening.encode, encode):
            refused(r"^sentences: received ", call, given)
    for size in (0, -1, 7, True, 2.0, "3"):
        message = r"^truncate_dim: received .* 1 to 6, or none"
        refused(message, whitening.encode, "dog", truncate_dim=size)


@pytest.mark.parametrize("kind", ["folder", "words"])
def test_an_encoder_is_found_from_any_folder(kind, tmp_path, monkeypatch):
    """Its path as it was typed, the model and the encoder moved together, the model moved alone."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    if kind == "words":
        Path("enc").write_text("the 1 2\ndog 3 -4\na 5 6\ncat -7 8\nruns 9 10")
    else:
        write_tiny(Path("enc"))
    saved = Model(load_encoder("enc"))
    expected = saved.encode(SENTENCES)
    saved.save("runs/m/model")
    monkeypatch.chdir(tmp_path)

    def check(path):
        assert_array_equal(Model.load(path).encode(SENTENCES), expected)

    check("a/runs/m")
    shutil.copytree("a", "moved/there")
    shutil.move("a/enc", "hidden")
    check("moved/there/runs/m")
    shutil.move("hidden", "a/enc")
    shutil.move("moved/there/runs/m", "alone")  # found by its absolute path
    check("alone")
    shutil.move("a/enc", "hidden")
    refused(r"^encoder: there is no .*alone', encoder=FOLDER", Model.load, "alone")
    assert Model.load("alone", encoder="hidden").encoder.path == "hidden"


def test_another_encoder_at_the_relative_path(tmp_path):
    """The identity decides between the two places."""
    write_tiny(tmp_path / "first" / "enc")
    write_tiny(tmp_path / "second" / "enc", seed=1)
    saved = Model(SentenceEncoder(tmp_path / "first" / "enc"))
    saved.save(tmp_path / "first" / "model")
    shutil.copytree(tmp_path / "first" / "model", tmp_path / "second" / "model")
    loaded = Model.load(tmp_path / "second")
    assert loaded.encoder.identity == saved.encoder.identity
    shutil.rmtree(tmp_path / "first")
    refused(r"^encoder: received another .*FOLDER", Model.load, tmp_path / "second")


def test_a_name_on_the_hub_stays_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("builtin-sample").mkdir()  # not the encoder of that name
    Model(SentenceEncoder("builtin-sample")).save("model")
    assert Model.load("model").encoder.path == "builtin-sample"


WHITENING = "whitening-4:shrinkage=0.1"


def test_a_folder_holds_models_of_one_encoder(folder, tmp_path):
    first = SentenceEncoder(folder / "bert")
    second = SentenceEncoder(folder / "bert", layers=1)
    to = tmp_path / "model"
    model_of(first, WHITENING).save(to)
    expected = Model.load(tmp_path).encode(TEXTS)
    message = "^folder: received .* holds a model of another encoder"
    refused(message, model_of(second, WHITENING).save, to)
    # Another map of the same encoder stands beside the first; the same map replaces it.
    model_of(first, FLOW).save(to)
    assert_array_equal(Model.load(tmp_path, "whitening").encode(TEXTS), expected)
    model_of(first, WHITENING).save(to)
    (to / "notes.txt").write_text("mine")
    model_of(first, WHITENING).save(to)
    assert (to / "notes.txt").read_text() == "mine"


def test_a_map_knows_its_encoder(folder, tmp_path):
    first = SentenceEncoder(folder / "bert")
    second = SentenceEncoder(folder / "bert", layers=1)
    model_of(first, WHITENING).save(tmp_path / "a" / "model")
    model_of(second, WHITENING).save(tmp_path / "b" / "model")
    name = "whitening.safetensors"
    shutil.copy(tmp_path / "a" / "model" / name, tmp_path / "b" / "model" / name)
    rows = first.encode(TEXTS)
    for call in (
        lambda: Model.load(tmp_path / "b"),
        lambda: load_fitted(tmp_path / "b" / "model"),
        lambda: encode(vectors=rows, model=str(tmp_path / "b")),
    ):
        refused(rf"{name}: was fitted on vectors of another encoder", call)


def test_the_only_map_is_not_a_choice_among_several(folder, tmp_path):
    encoder = SentenceEncoder(folder / "bert")
    rows = encoder.encode(TEXTS)
    maps = [fit_map(text, rows) for text in ("whitening-3", "standardization")]
    for each in maps:
        Model(encoder, each).save(tmp_path / "model")
    refused(
        "^method: received none; expected one of standardization, whitening",
        Model.load,
        tmp_path,
    )
    assert Model.load(tmp_path, "whitening").dim == 3


@pytest.mark.parametrize("name", ["encoder.json", "flow.safetensors"])
def test_damaged_files(name, folder, tmp_path):
    path = shutil.copytree(folder / "run", tmp_path / "run") / "model" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused(name, Model.load, tmp_path / "run")


def test_a_folder_of_runs_lists_them(folder, tmp_path):
    for run in ("flow/second", "flow/first"):
        shutil.copytree(folder / "run", tmp_path / run)
    runs = f"one of {tmp_path}/flow/first, {tmp_path}/flow/second"
    for path in (tmp_path, tmp_path / "flow"):
        for call in (Model.load, load_fitted):
            refused(f"^model: received '{path}'; expected {runs}", call, path)
    shutil.copytree(folder / "run" / "model", tmp_path / "saved" / "mine")
    refused(f"expected one of {tmp_path}/saved/mine", load_fitted, tmp_path / "saved")


MISTAKES = [
    (lambda path: Model.load(path / "run", "zca"), "method: received 'zca'"),
    (lambda path: Model.load(path / "bert", "flow"), "method: received 'flow'"),
    (lambda path: Model.load(path / "none"), "model: received"),
    (lambda path: Model.load(path / "run").encode("a", batch_size=0), "batch_size: "),
    (lambda path: load_fitted(path / "bert"), "model: received"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes(call, message, folder, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    refused(f"^{message}", call, folder)


def test_sentences_need_an_encoder():
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    model = Model(None, fit_map("whitening", rows))
    for call in (model.encode, model.embed):
        refused(r"^encoder: missing; .*\(transform", call, SENTENCES)


class WithArray(Map):
    """Has a parameter that no file can hold."""

    def __init__(self, parameter=None):
        self.parameter = parameter

    def _apply(self, rows):
        return rows


@pytest.mark.parametrize(
    "wrong", [as_map(PCA(2)), WithArray(object())], ids=["sklearn", "object"]
)
def test_a_save_that_fails_leaves_nothing(wrong, tmp_path):
    encoder = SentenceEncoder("builtin-sample", pooling="zipf")
    model = Model(encoder, wrong.fit(encoder.encode(SENTENCES)))
    refused("cannot be saved", model.save, tmp_path / "new")
    refused("cannot be saved", save_map, model.map, tmp_path / "new" / "map")
    assert [*tmp_path.iterdir()] == []


def test_any_encoder_of_compare_is_one_of_a_model(folder):
    path, source = str(folder / "bert"), load_encoder(folder / "bert")
    expected = source.encode(SENTENCES)
    for encoder in (path, source, source.encode, EncoderOptions(path)):
        model = Model(encoder).to("cpu")
        assert_array_equal(model.encode(SENTENCES), expected)


def test_a_trained_encoder_is_saved_before_its_model(tmp_path):
    encoder = SentenceEncoder(frozen=False)
    with torch.no_grad():
        next(encoder.backbone.parameters()).mul_(1.5)
    message = "object in memory; .* which save writes"
    refused(message, Model(encoder).save, tmp_path / "model")
    encoder.save(tmp_path / "encoder")
    saved = Model(SentenceEncoder(tmp_path / "encoder"))
    saved.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert_array_equal(loaded.encode(SENTENCES), encoder.encode(SENTENCES))


def test_numbers_of_numpy_are_numbers(tmp_path):
    """As parameters of maps and settings of encoders: saved, named and loaded as Python's."""
    one: Any = np.int64(1)
    fitted: list[Any] = [
        Whitening(n_components=4 * one, shrinkage=np.float32(0.25) * one),
        Truncation(np.int32(3) * one),
        RemoveDirections(2 * one),
        Flow(epochs=one, levels=one, depth=one, noise=np.float32(0.5) * one),
    ]
    encoder = SentenceEncoder("builtin-sample", max_length=64 * one)
    vectors = encoder.encode(SENTENCES)
    for each in fitted:
        model = Model(encoder, each.fit(vectors))
        model.save(tmp_path)
        loaded: Any = Model.load(tmp_path, model.map_name)
        assert loaded.map.text == each.text
        assert loaded.digest == model.digest
        assert_array_equal(loaded.encode(SENTENCES), model.encode(SENTENCES))
