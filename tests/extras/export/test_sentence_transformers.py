"""Folders that sentence-transformers opens with its own modules, and that this package opens."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer

from encoders.tiny import SENTENCES, add_modules, write_tiny
from extras.export.models import (
    AFFINE,
    CHAINS,
    FLOW,
    TEXTS,
    fit_map,
    largest_difference,
    model_of,
)
from flowbert.encoders import SentenceEncoder, load_encoder, open_encoder
from flowbert.extras.export import EXPORT_FORMATS, SentenceTransformers, export
from flowbert.extras.export.sentence_transformers import MODES, stock_modules
from flowbert.extras.word_vectors import WordVectors
from flowbert.maps import Centering
from flowbert.model import Model
from helpers import COMMIT, refused, use_hub_cache, warned

# A layer norm leaves no variance in one direction.
pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

TOLERANCE = SentenceTransformers.tolerance
"""What is promised: 168 u of float32, u = 6e-8. Sums of at most 64 terms, 8 u in quadratic mean,
pass through maps of a condition of about 10."""

WEIGHTED = ("zipf", "sif:a=0.01:cls=2", "idf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("secret-place") / "bert")


@pytest.fixture(scope="module")
def bert(folder):
    return SentenceEncoder(folder, max_length=9)


@pytest.fixture(scope="module")
def maps(bert):
    rows = bert.encode(TEXTS)
    return {"none": None} | {name: fit_map(name, rows) for name in (*AFFINE, *CHAINS)}


@pytest.fixture(scope="module")
def transformer(folder):
    opened = Transformer(str(folder), config_kwargs={"output_hidden_states": True})
    opened.max_seq_length = 9
    return opened


SETTINGS = [
    ("mean", "last"),
    ("mean", "1,2"),
    *((name, "first_last") for name in (*MODES, *WEIGHTED)),
]


@pytest.mark.parametrize(("pooling", "layers"), SETTINGS)
def test_maps_after_layers_and_poolings(pooling, layers, bert, maps, transformer):
    encoder = bert.read(layers=layers, pooling=pooling, count_over=TEXTS)
    plain = (pooling, layers) == ("mean", "first_last")
    for name in maps if plain else ("none", "whitening"):
        modules = [transformer, *stock_modules(encoder, maps[name])]
        opened = SentenceTransformer(modules=modules)
        vectors = Model(encoder, maps[name]).encode(SENTENCES)
        assert largest_difference(opened.encode(SENTENCES), vectors) <= TOLERANCE, name


# ------------------------------------------------------------------- an exported folder


@pytest.fixture(scope="module")
def model(folder):
    options: dict[str, Any] = {"layers": "first_last", "pooling": "idf"}
    options |= {"max_length": 9, "template": "the big {}", "count_over": TEXTS}
    encoder = SentenceEncoder(folder, **options)
    return model_of(encoder, FLOW)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return export(model, tmp_path_factory.mktemp("exported") / "name")


def test_it_has_no_code_and_names_nothing_of_this_machine(exported):
    kinds = [
        each["type"] for each in json.loads((exported / "modules.json").read_text())
    ]
    assert kinds.pop() == "flowbert.extras.export.sentence_transformers.MapModule"
    assert all(kind.startswith("sentence_transformers.") for kind in kinds)
    for path in exported.rglob("*"):
        assert path.suffix != ".py"
        assert path.is_dir() or b"secret-place" not in path.read_bytes(), path


def test_it_has_prompt_token_weights_length_and_map(exported, model):
    texts = [*SENTENCES, " ".join(["cat", "dog"] * 8)]
    loaded = Model.load(exported)
    for vectors in (
        SentenceTransformers().encode(exported, texts),
        loaded.encode(texts),
    ):
        assert largest_difference(vectors, model.encode(texts)) <= TOLERANCE
    with warned("is used without the map"):
        assert open_encoder(str(exported)).identity == model.encoder.identity
    assert Model.load(exported, "raw").map is None


def test_it_loads_by_its_name_on_the_hub(exported, tmp_path, monkeypatch):
    shutil.copytree(exported, use_hub_cache(tmp_path, "some/name", monkeypatch))
    loaded = Model.load("some/name")
    assert loaded.map_name == "flow"
    assert loaded.encoder.describe()["path"] == "some/name"
    assert loaded.encoder.describe()["revision"] == COMMIT


@pytest.mark.parametrize("mode", ["mean", ["mean", "cls"]], ids=str)
def test_settings_of_others_are_kept_in_front_of_a_map(mode, folder, tmp_path):
    other = add_modules(
        Path(shutil.copytree(folder, tmp_path / "other")),
        ("Pooling", {"pooling_mode": mode}),
        ("Normalize", {}),
        processing_kwargs={"text": {"max_length": 4}},
    )
    settings = other / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"truncate_dim": 8}))
    for name in (None, "whitening-4", FLOW):
        model = model_of(load_encoder(other), name)
        to = export(model, tmp_path / f"{name}")
        vectors = SentenceTransformers().encode(to, TEXTS)
        assert vectors.shape == model.encode(TEXTS).shape
        assert largest_difference(vectors, model.encode(TEXTS)) <= TOLERANCE


@pytest.mark.parametrize("name", [f"{FLOW}:coupling=affine", CHAINS[-1]])
def test_code_of_the_checkpoint_is_not_kept(name, bert, tmp_path):
    """A flow after [CLS] needs trust_remote_code, which must not run other code."""
    encoder = bert.read(pooling="cls")
    encoder.backbone.network.config.auto_map = {"AutoModel": "modeling.Other"}
    model = model_of(encoder, name)
    to = export(model, tmp_path / "to")
    del encoder.backbone.network.config.auto_map
    assert "auto_map" not in (to / "config.json").read_text()
    assert "flowbert, whose module computes the map" in (to / "README.md").read_text()
    texts = ["[CLS] cat", *SENTENCES]
    vectors = SentenceTransformers().encode(to, texts)
    assert largest_difference(vectors, model.encode(texts)) <= TOLERANCE


# ---------------------------------------------------------------------------- mistakes


def word_vectors(encoder):
    path = Path(encoder.path).with_name("words.txt")
    path.write_text("cat 1 2\ndog 3 4\n")
    return Model(WordVectors(str(path)))


def with_pooler(encoder):
    return Model(encoder.read(pooling="cls_pooler"))


MISTAKES = [
    (word_vectors, {}, r"format: .*words\.txt"),
    (with_pooler, {}, "format: .*cls_pooler.*mean"),
    (lambda _: Model(None), {}, "encoder: is missing"),
    (Model, {"results": "none.json"}, r"none\.json: "),
    (lambda encoder: Model(encoder, Centering()), {"method": "raw"}, "method: .*'raw'"),
    (lambda encoder: encoder.path, {"method": "flow"}, "method: .*'flow'"),
]


@pytest.mark.parametrize(("make", "options", "message"), MISTAKES)
def test_mistakes(make, options, message, bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(f"^{message}", export, make(bert), **{"to": "to"} | options)
    assert not list(tmp_path.iterdir())


def test_a_missing_package(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for format in EXPORT_FORMATS:
        refused(
            r"^format: .*pip install",
            export,
            Model(bert),
            tmp_path / "to",
            format=format,
        )


def test_other_vectors_are_noticed(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(SentenceTransformers, "encode", lambda *_: np.eye(256))
    refused(r"^to: .*cosines differ by 1\.0e\+00", export, Model(bert), tmp_path / "to")
    assert not list(tmp_path.iterdir())
