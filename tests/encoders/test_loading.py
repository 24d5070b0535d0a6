"""Encoders from folders, runs, sentence-transformers and the hub, and what is wrong with them."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    CanineConfig,
    T5Config,
    T5EncoderModel,
)

from encoders.tiny import (
    DENSE,
    SENTENCES,
    add_modules,
    assert_near,
    word_tokenizer,
)
from flowbert.encoders import (
    EncoderOptions,
    SentenceEncoder,
    load_encoder,
    open_encoders,
)
from flowbert.encoding import encode
from flowbert.experiments.plan import parse_methods
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.extras.word_vectors import WordVectors
from flowbert.maps import Whitening
from flowbert.model import Model
from helpers import COMMIT, refused, use_hub_cache, warned

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:max_length. .* were cut")

MEAN = ("Pooling", {"pooling_mode_mean_tokens": True})
CLS = ("Pooling", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})
JSON_FILES = [
    "flowbert.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
]


def not_loaded(path, part, **options):
    """Loading fails with one line that has this part."""
    refused(re.escape(part), load_encoder, str(path), **options)


def update(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


# -------------------------------------------------------------------------- a folder


@pytest.mark.parametrize(
    "path", ["", "./nothing", "~/nothing", "a/b/c", "some/bert", "brt@v2"]
)
def test_no_such_encoder(path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    not_loaded(path, f"encoder: received {path!r}")


def drop_weights(folder, pattern):
    weights = load_file(folder / "model.safetensors")
    kept = {
        name: tensor for name, tensor in weights.items() if not re.search(pattern, name)
    }
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def add_code(folder):
    code = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    update(folder / "config.json", model_type="mine", auto_map=code)
    (folder / "mine.py").write_text("raise SystemExit('ran')")


def add_words(folder):
    tokenizer = word_tokenizer()
    tokenizer.add_tokens([f"word{number}" for number in range(9)])
    tokenizer.save_pretrained(folder)


def gone(name):
    return lambda folder: (folder / name).unlink()


def written(name, content):
    return lambda folder: (folder / name).write_text(content)


SETTINGS = "config_sentence_transformers.json"


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no tokenizer": (gone("tokenizer.json"), "tokenizer"),
    "cut weights": (written("model.safetensors", "x"), "loaded"),
    "a missing layer": (partial(drop_weights, pattern="1.output"), "lacks 4 weights"),
    "another tokenizer": (add_words, "30 tokens"),
    "code": (add_code, "cannot be loaded"),
    "an encoder-decoder": (T5Config().save_pretrained, "'t5'"),
    "half of an encoder-decoder": (
        lambda folder: T5EncoderModel(
            T5Config(
                vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2
            )
        ).save_pretrained(folder),
        "of type 't5'",
    ),
    "no vocabulary": (CanineConfig().save_pretrained, "type 'canine'; expected a text"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_bad_folders(name, folder):
    damage, part = DAMAGES[name]
    damage(folder)
    not_loaded(folder, part)


def test_a_gguf_file_is_an_encoder_for_transformers(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    not_loaded(tmp_path / "x.gguf", "it cannot be loaded")


def test_a_missing_pooler_matters_to_cls_pooler_only(folder, tiny):
    identity = SentenceEncoder(folder).identity
    drop_weights(folder, "pooler")
    assert SentenceEncoder(folder).identity == identity
    not_loaded(folder, "with a pooler", pooling="cls_pooler")
    not_loaded(tiny("distilbert"), "with a pooler", pooling="cls_pooler")


def test_a_masked_language_model_loads_in_silence(folder, tmp_path, capfd):
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder))
    model.half().save_pretrained(tmp_path / "mlm")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "mlm")
    capfd.readouterr()
    encoder = SentenceEncoder(tmp_path / "mlm")
    name = "embeddings.word_embeddings.weight"
    state = encoder.backbone.network.state_dict()
    assert torch.equal(state[name], model.state_dict()[f"bert.{name}"].float())
    assert "".join(capfd.readouterr()) == ""


def test_weights_and_code_that_are_not_used(folder):
    weights = load_file(folder / "model.safetensors")
    added = {
        "encoder.layer.0.adapter.weight": torch.ones(2),
        "lm_predictions.weight": torch.ones(2),  # above the network
    }
    metadata = {"format": "pt"}
    save_file(weights | added, folder / "model.safetensors", metadata)
    with warned(r"1 weights .*, first encoder.layer.0.adap"):
        SentenceEncoder(folder)
    save_file(weights, folder / "model.safetensors", metadata)
    update(folder / "config.json", auto_map={"AutoModel": "modeling.OtherModel"})
    with warned(r"code .*, modeling.OtherModel, .* BertModel"):
        SentenceEncoder(folder)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"layers": ["last", [1]], "pooling": ["mean", "max"]}, 4),
        ({"pooling": ["mean", "cls_pooler"]}, 2),
        ({"template": [None, "the {} in"], "layers": "singles"}, 8),
        ({"views": [{"layers": 1}, {"pooling": "cls"}]}, 2),
    ],
)
def test_each_encoder_is_made_once_and_its_network_loaded_once(
    options, count, tiny, monkeypatch
):
    calls: list[str] = []
    make, load = SentenceEncoder.__init__, AutoModel.from_pretrained

    def counted(self, *given, **named):
        calls.append("make")
        make(self, *given, **named)

    def loaded(*given, **named):
        calls.append("load")
        return load(*given, **named)

    monkeypatch.setattr(SentenceEncoder, "__init__", counted)
    monkeypatch.setattr(AutoModel, "from_pretrained", loaded)
    open_encoders(EncoderOptions(str(tiny("bert")), **options))
    assert (calls.count("make"), calls.count("load")) == (count, 1)


NAMES = ["v1.txt", "a b[1]", "o:n@e"]


def test_folders_and_runs_of_any_name(folder, tmp_path, monkeypatch):
    encoder = SentenceEncoder(folder)
    vectors = encoder.encode(SENTENCES)
    fitted = Whitening(2, shrinkage=0.1).fit(vectors)
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    for name in NAMES:
        folder = folder.rename(tmp_path / "in" / name)
        (opened,) = open_encoders(f"./{name}")
        assert opened.identity == encoder.identity
        both = [name, "builtin-sample"]
        opened_both = open_encoders(EncoderOptions(",".join(both)))
        assert [each.path for each in opened_both] == both
    encoder = SentenceEncoder(folder)
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        Model(encoder, fitted).save(Path(name) / "model")
        assert np.array_equal(encode(SENTENCES, model=name), fitted.transform(vectors))
        for path in (name, f"{name}/model"):
            not_loaded(path, "a model whose encoder is in another folder")
        assert len(parse_methods(f"raw,./{name},whitening")) == 3
        assert len(parse_methods(f"raw,{name},whitening")) == 3


# ------------------------------------------------------------- encoders trained here


def test_a_trained_encoder_is_used_as_it_was_trained(folder, tmp_path):
    settings: dict[str, Any] = {"layers": [1, 3], "max_length": 20}
    settings |= {"pooling": "idf:cls=2", "count_over": SENTENCES}
    encoder = SentenceEncoder(folder, frozen=False, **settings)
    with torch.no_grad():
        next(encoder.parameters()).add_(1.0)
    encoder.tokenize(["a cat"])  # leaves truncation behind in the tokenizer
    encoder.save(tmp_path / "run" / "model" / "encoder")
    for path in ("run", "run/model/encoder"):
        again = SentenceEncoder(tmp_path / path)
        assert again.identity == encoder.identity
        assert_near(again.encode(SENTENCES), encoder.encode(SENTENCES))
    plain = AutoTokenizer.from_pretrained(tmp_path / "run/model/encoder")
    assert len(plain("cat " * 50)["input_ids"]) == 52
    SentenceEncoder(tmp_path / "run", pooling="idf:cls=2")


# --------------------------------------------------------- folders of sentence-transformers


def test_what_only_the_library_computes_is_left_out_with_a_warning(folder):
    add_modules(folder, MEAN, DENSE, NORMALIZE)
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"truncate_dim": 4, "similarity_fn_name": "dot"}))
    encoder = load_encoder(folder)
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert encoder.encode(SENTENCES).shape == (len(SENTENCES), 4)
    assert load_encoder(**encoder.describe()).identity == encoder.identity
    ignored = load_encoder(folder, max_length=9, template="a {}", max_words=2)
    assert ignored.identity == encoder.identity
    refused("with Dense, truncate_dim, which only sent", SentenceEncoder, folder)
    for options in ({"layers": "first_last"}, {"pooling": "cls"}, {"frozen": False}):
        plain = {"layers": "last", "pooling": "mean", "frozen": True} | options
        with warned("without its Dense, truncate_dim"):
            changed: Any = load_encoder(folder, **options)
        assert (changed.dim, changed.frozen) == (16, plain["frozen"])
        assert str(changed.pooling) == plain["pooling"]


def test_a_final_normalize_is_left_out_with_a_warning(folder, tmp_path):
    """Of a folder that the library saves: a release with new settings is noticed here."""
    identity = SentenceEncoder(folder, max_length=20).identity
    add_modules(folder, MEAN, NORMALIZE, max_seq_length=20)
    peer = SentenceTransformer(str(folder), device="cpu")
    peer.save(str(tmp_path / "saved"), create_model_card=False)
    for path in (folder, tmp_path / "saved"):
        with warned("Normalize, .* but a map") as caught:
            found = load_encoder(path).identity
        assert len(caught) == 1
        assert found | {"config": identity["config"]} == identity
    SentenceEncoder(folder, frozen=False)  # whoever trains it has nothing to know


def test_a_limit_is_that_of_tokenizer_or_positions(folder):
    add_modules(folder, MEAN)
    assert SentenceEncoder(folder).max_length == 150
    update(folder / "tokenizer_config.json", model_max_length=40)
    assert SentenceEncoder(folder).max_length == 40
    add_modules(folder, MEAN, max_seq_length=512)
    assert SentenceEncoder(folder).max_length == 150


@pytest.mark.parametrize("file", JSON_FILES)
@pytest.mark.parametrize("content", [b"{", b"\xff", b"[3]"])
def test_damaged_json_is_one_line(file, content, folder):
    add_modules(folder, MEAN, NORMALIZE, max_seq_length=20, do_lower_case=True)
    (folder / file).write_bytes(content)
    not_loaded(folder, "encoder: " if file != "flowbert.json" else file)


# --------------------------------------------------------------------------- the hub


@pytest.mark.parametrize("trained", [False, True])
def test_a_cached_model_offline(trained, folder, tmp_path, monkeypatch):
    snapshot = use_hub_cache(tmp_path / "hub", "some/bert", monkeypatch)
    if trained:
        SentenceEncoder(folder, pooling="idf", count_over=SENTENCES).save(
            snapshot / "model" / "encoder"
        )
    else:
        shutil.copytree(folder, snapshot)
        add_modules(snapshot, CLS)
    expected = SentenceEncoder(snapshot)
    for path, revision in product(("some/bert", "some/bert@main"), (None, COMMIT)):
        encoder = SentenceEncoder(path, revision=revision)
        assert encoder.identity == expected.identity
        assert encoder.describe()["revision"] == COMMIT
    not_loaded("some/bert", "'some/bert'", revision="v2")
    not_loaded("some/other", "'some/other'")
    if trained:
        (snapshot / "model/encoder/model.safetensors").unlink()
        not_loaded("some/bert", "cannot be loaded")


# ------------------------------------------------------------------- which class it is


def test_a_text_file_holds_word_vectors(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the 1 2\ncat 3 4\n")
    encoder = load_encoder(path, pooling="mean", layers=None, dtype="float32")
    assert isinstance(encoder, WordVectors)
    ignored = load_encoder(path, layers="last", template="a {}", views=["1"])
    assert ignored.identity == encoder.identity
    not_loaded(tmp_path / "missing.txt", "missing.txt")
