"""Networks that do not fit one device or one file: device maps, quantized and sharded weights."""

import copy
import importlib.util
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import cosine_similarity

from encoders.tiny import SENTENCES, tiny_network, word_tokenizer, write_tiny
from flowbert import export
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.checkpoint import QUANTIZED
from flowbert.encoding import encode
from flowbert.extras.views import ViewsEncoder
from flowbert.maps import Whitening
from flowbert.model import Model
from helpers import refused

pytest.importorskip("accelerate")
has_bitsandbytes = importlib.util.find_spec("bitsandbytes") is not None
NOUNS = ("cat", "dog", "bird", "mat")
TEXTS = [*SENTENCES, *(f"{a} on the {b}" for a in NOUNS for b in NOUNS)]
PARTS = ("embed_tokens", "layers.0", "layers.1", "layers.2", "norm", "rotary_emb")
MAPS: dict[str, Any] = {
    "half": dict(
        zip(PARTS, ("cpu", "cpu", "disk", "disk", "disk", "cpu"), strict=True)
    ),
    "disk": dict.fromkeys(PARTS, "disk"),
    "cpu": {"": "cpu"},
    "auto": "auto",
}
READINGS: list[dict[str, Any]] = [
    {"layers": "1,2", "pooling": "mean"},
    {"template": 'the "{}" is a "'},
    {"layers": "first_last", "pooling": "max", "max_length": 40},
]


@pytest.fixture
def llama(tmp_path):
    return str(write_tiny(tmp_path / "llama", "llama"))


@pytest.mark.parametrize("placed", MAPS)
def test_a_device_map_changes_no_vector_and_no_identity(placed, llama):
    for reading in READINGS:
        plain = SentenceEncoder(llama, **reading)
        encoder = SentenceEncoder(llama, device_map=MAPS[placed], **reading).to("cpu")
        assert encoder.backbone.findings == plain.backbone.findings
        assert encoder.identity == plain.identity
        assert_array_equal(encoder.encode(TEXTS), plain.encode(TEXTS))
        assert encoder.identity == plain.identity


def test_a_placed_network_stays_where_it_is(llama):
    encoder = SentenceEncoder(llama, device_map=MAPS["half"])
    expected = encoder.encode(TEXTS)
    assert_array_equal(encoder.to("meta").half().encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("given", "saved"), [("auto", "auto"), ({"": torch.device("cpu")}, {"": "cpu"})]
)
def test_a_model_is_opened_with_its_device_map(given, saved, llama, tmp_path):
    model = Model(SentenceEncoder(llama, device_map=given), Whitening(4, shrinkage=0.5))
    model.map.fit(model.encoder.encode(TEXTS))
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert again.encoder.describe()["device_map"] == saved
    assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))
    views: list[dict[str, Any]] = [{"layers": 1}, {"layers": 2, "pooling": "max"}]
    encoder = ViewsEncoder(llama, views=views, device_map=given)
    assert encoder.describe()["device_map"] == saved
    assert encoder.identity == ViewsEncoder(llama, views=views).identity


def test_commands_take_a_device_map(llama):
    options = EncoderOptions(llama, device_map="auto")
    assert open_encoder(options).describe()["device_map"] == "auto"
    expected = encode(TEXTS, encoder=llama)
    assert_array_equal(encode(TEXTS, encoder=options), expected)


def test_shards_are_one_network(llama, tmp_path):
    folder = tmp_path / "shards"
    tiny_network("llama").save_pretrained(folder, max_shard_size="8KB")
    word_tokenizer(decoder=True).save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 2
    plain = SentenceEncoder(llama)
    for device_map in (None, MAPS["half"]):
        encoder = SentenceEncoder(str(folder), device_map=device_map)
        assert encoder.identity == plain.identity
        assert_array_equal(encoder.encode(TEXTS), plain.encode(TEXTS))


@pytest.mark.skipif(has_bitsandbytes, reason="bitsandbytes is installed")
def test_without_bitsandbytes_one_line_names_it(llama, tmp_path):
    for dtype in QUANTIZED:
        refused("cannot be loaded.*bitsandbytes", SentenceEncoder, llama, dtype=dtype)
    config = tmp_path / "llama" / "config.json"
    quantized = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    content = json.loads(config.read_text()) | {"quantization_config": quantized}
    config.write_text(json.dumps(content))
    refused("cannot be loaded.*bitsandbytes", SentenceEncoder, llama)
    refused("dtype: .* weights are quantized", SentenceEncoder, llama, dtype="4bit")


def test_a_placed_network_is_not_trained(llama):
    options = {"device_map": "auto", "frozen": False}
    refused("neither in a training", SentenceEncoder, llama, **options)


def test_a_placed_network_is_neither_pickled_nor_exported(llama, tmp_path):
    model = Model(SentenceEncoder(llama, device_map="auto"))
    refused("pickled or exported with a device_map", pickle.dumps, model)
    pytest.importorskip("onnxruntime")
    refused("format: .*device_map", export, model, tmp_path / "a", format="onnx")


def test_quantized_weights_are_another_encoder(llama, tmp_path):
    pytest.importorskip("bitsandbytes")
    plain = SentenceEncoder(llama).encode(TEXTS)
    for dtype in QUANTIZED:
        encoder = SentenceEncoder(llama, dtype=dtype)
        identity = encoder.identity
        vectors = encoder.encode(TEXTS)
        assert encoder.identity == identity != SentenceEncoder(llama).identity
        # Of 16 random dimensions; of a trained network see docs/decoders.md.
        cosines = np.diag(cosine_similarity(vectors, plain))
        assert cosines.min() > (0.99 if dtype == "8bit" else 0.8)
        # What a CPU computes is what the weights say.
        exact = copy.deepcopy(encoder.backbone.network).dequantize().float()
        exact = SentenceEncoder(encoder.backbone.like(exact)).encode(TEXTS)
        assert np.diag(cosine_similarity(vectors, exact)).min() > 0.99
        model = Model(encoder, Whitening(4, shrinkage=0.5).fit(vectors))
        model.save(tmp_path / dtype)
        again = Model.load(tmp_path / dtype)
        assert again.encoder.describe()["dtype"] == dtype
        assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))
        refused(
            "neither in a training", SentenceEncoder, llama, dtype=dtype, frozen=False
        )
        encoder.save(tmp_path / f"saved-{dtype}")
        opened = SentenceEncoder(tmp_path / f"saved-{dtype}", dtype="bfloat16")
        assert_array_equal(opened.encode(TEXTS), vectors)
        assert opened.describe()["dtype"] == "bfloat16"
