"""A model in memory and in its folder."""

import inspect
import math
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from encoders.tiny import SENTENCES, write_tiny
from exports.models import FLOW, TEXTS, fit_map
from flowbert.encoders import SentenceEncoder, load_encoder
from flowbert.encoding import encode
from flowbert.errors import FlowbertWarning
from flowbert.maps import PRECISIONS, Ranges, Scale, Whitening, log_density, quantize
from flowbert.model import Model, find_model, load_fitted
from helpers import refused

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

MAPS = {
    "whitening": "whitening-6:shrinkage=0.1",
    "flow": FLOW,
    "standardization+flow": f"standardization+{FLOW}",
}


def check_close(actual, expected):
    """Compare vectors of batches of other sizes: to 168 u of float32, u = 6e-8."""
    bound = 1e-5 * float(np.abs(expected).max())
    assert_allclose(actual, expected, rtol=0, atol=bound)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder with three models, beside its encoder."""
    path = tmp_path_factory.mktemp("models")
    for model in make_models(write_tiny(path / "bert")).values():
        model.save(path / "run" / "model")
    return path


def make_models(path):
    encoder = SentenceEncoder(path, pooling="idf", count_over=TEXTS)
    rows = encoder.encode(TEXTS)
    models = {"raw": Model(encoder)}
    for name, text in MAPS.items():
        fitted = fit_map(text, rows)
        models[name] = Model(encoder, fitted, Scale.of(fitted.transform(rows)))
    return models


@pytest.fixture(scope="module")
def model(folder):
    return Model.load(folder / "run")


def test_what_is_saved_is_loaded(folder, model):
    for name, expected in make_models(folder / "bert").items():
        loaded = Model.load(folder / "run", name)
        assert loaded.map_name == expected.map_name == name
        assert loaded.encoder.identity == expected.encoder.identity
        check_close(loaded.encode(SENTENCES), expected.encode(SENTENCES))
    assert model.map_name == "flow"


def test_options_of_encode(model):
    vectors = model.encode(SENTENCES)
    assert vectors.dtype == np.float32
    check_close(model.encode(SENTENCES[0]), vectors[0])
    check_close(model.encode(SENTENCES, batch_size=2), vectors)
    shorter = model.encode(SENTENCES, truncate_dim=3, normalize_embeddings=True)
    lengths = np.linalg.norm(vectors[:, :3], axis=1, keepdims=True)
    check_close(shorter, vectors[:, :3] / lengths)
    tensor = model.encode(SENTENCES, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    assert_array_equal(tensor.numpy(), vectors)


@pytest.mark.parametrize(
    ("size", "unit"), [(None, False), (None, True), (3, False), (3, True)]
)
def test_fewer_bits_are_those_of_sentence_transformers(size, unit, model):
    util = pytest.importorskip("sentence_transformers.util.quantization")
    if "floor" not in inspect.getsource(util):
        pytest.skip("older sentence-transformers round towards zero, and pack less")
    options = {"truncate_dim": size, "normalize_embeddings": unit}
    vectors = model.encode(TEXTS, **options)
    assert model.scale is not None
    scale = model.scale.unit if unit else model.scale.plain
    assert scale is not None
    ranges = np.stack(scale.first(vectors.shape[1]))
    for precision in PRECISIONS:
        if precision.endswith("int8") and unit and size is not None:
            refused(
                r"^precision: received .*truncated",
                model.encode,
                TEXTS,
                **options,
                precision=precision,
            )
            continue
        codes = model.encode(TEXTS, **options, precision=precision)
        if precision == "float16":
            assert_array_equal(codes, vectors.astype(np.float16))
            continue
        theirs = util.quantize_embeddings(vectors, precision, ranges=ranges)
        assert codes.dtype == theirs.dtype
        assert_array_equal(codes, theirs)
        if precision.endswith("int8"):
            assert np.ptp(codes.astype(int), axis=0).min() > 200, "all levels in use"
            # Half a step of 1/255 of the range, and the rounding of float32.
            bound = 0.51 * (ranges[1] - ranges[0]) / 255
            restored = scale.first(vectors.shape[1]).restore(codes)
            assert (np.abs(restored - vectors) <= bound).all()


def test_bytes_of_two_calls_share_the_saved_ranges(folder, tmp_path):
    own = Model(SentenceEncoder(folder / "bert"))
    message = "^precision: received int8 without saved ranges.*calibrate"
    refused(message, own.encode, TEXTS, precision="int8")
    own.calibrate(TEXTS[:3] * 2)
    own.save(tmp_path)
    again = Model.load(tmp_path, encoder=str(folder / "bert"))
    ranges = Ranges.of([own.encode(TEXTS[:3])])
    expected = quantize(again.encode(TEXTS), "int8", ranges)
    codes = again.encode(TEXTS, precision="int8")
    # Vectors of batches of other sizes differ by rounding, which may cross a step.
    assert np.abs(codes.astype(int) - expected).max() <= 1


NO_SENTENCES = [
    *(5, b"dog", {"a": "dog"}, {"dog"}, [None], ["dog", float("nan")], [b"dog"]),
    *([["dog"]], ["\ud800"], [], np.array([]), np.array([["dog"]])),
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


def test_lists_of_sentences(model):
    vectors = model.encode(SENTENCES)
    kinds = [tuple, np.array, pd.Series, iter]
    for kind in kinds:
        check_close(model.encode(kind(SENTENCES)), vectors)
    long = "dog " * 5000
    with pytest.warns(FlowbertWarning, match="truncated to 128 tokens"):
        assert model.encode(long).shape == vectors[0].shape
    assert_array_equal(encode(long), encode([long])[0])


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


def whitening_of(encoder, scaled=False):
    rows = encoder.encode(TEXTS)
    fitted = Whitening(4, shrinkage=0.1).fit(rows)
    return Model(encoder, fitted, Scale.of(fitted.transform(rows)) if scaled else None)


def test_a_folder_holds_models_of_one_encoder(folder, tmp_path):
    first = SentenceEncoder(folder / "bert")
    second = SentenceEncoder(folder / "bert", layers=1)
    to = tmp_path / "model"
    whitening_of(first, scaled=True).save(to)
    expected = Model.load(tmp_path).encode(TEXTS)
    message = "^folder: received .* holds a model of another encoder"
    refused(message, whitening_of(second).save, to)
    # Another map of the same encoder stands beside the first; the same map replaces it, and its
    # scale.
    Model(first, fit_map(FLOW, first.encode(TEXTS))).save(to)
    assert_array_equal(Model.load(tmp_path, "whitening").encode(TEXTS), expected)
    whitening_of(first).save(to)
    assert Model.load(tmp_path, "whitening").scale is None
    (to / "notes.txt").write_text("mine")
    whitening_of(first).save(to)
    assert (to / "notes.txt").read_text() == "mine"


def test_a_map_knows_its_encoder(folder, tmp_path):
    first = SentenceEncoder(folder / "bert")
    second = SentenceEncoder(folder / "bert", layers=1)
    whitening_of(first, scaled=True).save(tmp_path / "a" / "model")
    whitening_of(second, scaled=True).save(tmp_path / "b" / "model")
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


def flip(name):
    """Change a bit in the middle of a file."""

    def change(run):
        path = run / "model" / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return change


def rewrite(text):
    return lambda run: (run / "model" / "encoder.json").write_text(text)


DAMAGED = [
    (flip("encoder.json"), "encoder.json"),
    (rewrite("[]"), "encoder.json"),
    (rewrite('{"encoder": {}, "identity": {}, "digest": 3}'), "encoder.json"),
    (flip("flow.safetensors"), "flow.safetensors"),
    (flip("token_weights.safetensors"), "token_weights.safetensors"),
]


@pytest.mark.parametrize(("damage", "file"), DAMAGED)
def test_damaged_files(damage, file, folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    damage(tmp_path / "run")
    refused(file, Model.load, tmp_path / "run")


def test_a_folder_of_runs_lists_them(folder, tmp_path):
    for run in ("flow/second", "flow/first"):
        shutil.copytree(folder / "run", tmp_path / run)
    runs = f"one of {tmp_path}/flow/first, {tmp_path}/flow/second"
    for path in (tmp_path, tmp_path / "flow"):
        for call in (Model.load, find_model):
            refused(f"^model: received '{path}'; expected {runs}", call, path)
    shutil.copytree(folder / "run" / "model", tmp_path / "saved" / "mine")
    refused(f"expected one of {tmp_path}/saved/mine", find_model, tmp_path / "saved")


MISTAKES = [
    (lambda path: Model.load(path / "run", "zca"), "method: received 'zca'"),
    (lambda path: Model.load(path / "bert", "flow"), "method: received 'flow'"),
    (lambda path: Model.load(path / "none"), "model: received"),
    (lambda path: Model.load(path / "bert", encoder="x"), "encoder: received 'x'"),
    (lambda path: load_encoder(path / "bert", max_words=5), "max_words: received 5"),
    (lambda path: Model.load(path / "run").encode("a", batch_size=0), "batch_size: "),
    (lambda path: Model.load(path / "run").encode([]), "sentences: received none"),
    (lambda path: find_model(path / "bert"), "model: received"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes(call, message, folder, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    refused(f"^{message}", call, folder)


@pytest.mark.parametrize("name", ["flow", "standardization+flow"])
def test_log_densities(name, folder):
    own = Model.load(folder / "run", name)
    nats = own.log_prob(SENTENCES)
    assert (nats.shape, nats.dtype) == ((len(SENTENCES),), np.float64)
    # Of float32 vectors of other batches.
    expected = log_density(own.map, own.encoder.encode(SENTENCES))
    assert_allclose(nats, expected, rtol=1e-4)
    assert own.log_prob(SENTENCES[0]) == pytest.approx(nats[0], rel=1e-4)
    for other in ("whitening", "raw"):  # six of more directions, and none
        model = Model.load(folder / "run", other)
        refused(r"^map: received .* no density", model.log_prob, SENTENCES)


def test_sentences_need_an_encoder():
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    model = Model(None, fit_map("whitening", rows))
    for call in (model.encode, model.embed, model.log_prob, model.estimate_cosines):
        refused(r"^encoder: missing; .*\(transform", call, SENTENCES)


@pytest.mark.parametrize("wrong", [2.0, -80, [0.5, math.nan], [[0.1, math.inf]]])
def test_what_is_no_cosine(wrong, folder):
    own = Model.load(folder / "run", "whitening")
    own.estimate_cosines(TEXTS)
    refused(r"^cosines: received .*; expected numbers from", own.percentile, wrong)
    assert own.percentile([1.0 + 1e-3, -1.0 - 1e-3]).tolist() == [100.0, 0.0]


OUTPUTS = [
    {},
    {"truncate_dim": 4},
    {"normalize_embeddings": True},
    {"normalize_embeddings": True, "precision": "uint8"},
    {"truncate_dim": 4, "precision": "int8"},
    {"truncate_dim": 5, "normalize_embeddings": True, "precision": "binary"},
    {"precision": "ubinary"},
]


def compared(model, codes, options):
    """The vectors whose cosines are compared: bytes are restored, bits are -1 and 1."""
    precision = options.get("precision", "float32")
    if "int8" in precision:
        scale = model.scale
        ranges = scale.unit if options.get("normalize_embeddings") else scale.plain
        return ranges.first(codes.shape[1]).restore(codes)
    if "binary" in precision:
        shift = 128 if precision == "binary" else 0
        bits = np.unpackbits((codes.astype(np.int16) + shift).astype(np.uint8), axis=1)
        return bits[:, : options.get("truncate_dim") or model.dim] * 2.0 - 1
    return codes


@pytest.mark.parametrize("options", OUTPUTS, ids=str)
def test_percentiles_are_those_of_the_vectors_given_out(folder, options, tmp_path):
    own = Model.load(folder / "run", "whitening")
    refused(r"cosines: missing, .* without a corpus", own.percentile, 0.5)
    texts = list(dict.fromkeys(TEXTS))
    known = {k: v for k, v in options.items() if k != "normalize_embeddings"}
    own.estimate_cosines(texts * 2, **known)
    codes = own.encode(texts, **options)
    vectors = compared(own, codes, options)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(len(texts), 1)]
    # A share of pairs within rounding of the float32 of another batch, or of bytes.
    for q in (10, 50, 90):
        value = float(np.quantile(cosines, q / 100))
        low, high = (own.percentile(value + shift, **known) for shift in (-0.02, 0.02))
        assert low - 0.1 <= q <= high + 0.1
    own.save(tmp_path)
    again = Model.load(tmp_path, encoder=str(folder / "bert"))
    assert again.percentile(0.5, **known) == own.percentile(0.5, **known)
    refused("3 dimensions, but the model has", again.percentile, 0.5, truncate_dim=3)
    assert again.cosines is not None
    Model(again.encoder, again.map).save(tmp_path)
    assert Model.load(tmp_path, encoder=str(folder / "bert")).cosines is None
