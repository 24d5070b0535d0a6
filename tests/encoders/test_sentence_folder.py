"""Folders of sentence-transformers: what they say is what is used, and their modules give their vectors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.encoders import add_modules, make_encoder

from flowbert import SentenceEncoder
from flowbert.encoders.after_pooling import Dense
from flowbert.encoders.layerwise import LayerwiseEncoder
from flowbert.encoders.pooling import make_pooling
from flowbert.errors import FlowbertWarning, UserError

SENTENCES = ["the cat sleeps on the mat", "Dog", "a small bird sings not in été"]
MEAN = ("Pooling", {"pooling_mode_mean_tokens": True})
NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})
TANH = ("Dense", {"in_features": 16, "out_features": 6})
LINEAR = (
    "Dense",
    {
        "in_features": 6,
        "out_features": 4,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
        "use_residual": True,
    },
)
FOLDERS: dict[str, tuple[tuple[tuple[str, dict[str, Any]], ...], dict[str, Any] | None]] = {
    "mean": ((MEAN,), {"max_seq_length": 7, "do_lower_case": False}),
    "cls": ((("Pooling", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),), None),
    "max, new spelling": ((("Pooling", {"pooling_mode": "max"}),), None),
    "weighted": ((("Pooling", {"pooling_mode": ["weightedmean"]}),), None),
    "last token": ((("Pooling", {"pooling_mode": "lasttoken"}),), None),
    "nothing said": ((("Pooling", {}),), {"max_seq_length": 30, "do_lower_case": True}),
    "dense": ((MEAN, TANH), None),
    "two dense": ((MEAN, ("Dropout", {"dropout": 0.5}), TANH, LINEAR, NORMALIZE), None),
    "normalized": ((MEAN, NORMALIZE), None),
    "normalized inside": ((MEAN, NORMALIZE, TANH), None),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "encoder")


def load(folder: Path, **options: Any) -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(str(folder), **options)


@pytest.mark.parametrize("name", FOLDERS)
def test_all_modules_give_the_vectors_of_sentence_transformers(folder: Path, name: str) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    modules, transformer = FOLDERS[name]
    add_modules(folder, *modules, transformer=transformer)
    prompts = {"prompts": {"query": "the big ", "other": "a "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    peer = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    ours = load(folder, modules="all")
    np.testing.assert_allclose(ours.encode(SENTENCES), peer.encode(SENTENCES), rtol=0, atol=1e-5)
    assert ours.max_length == peer.max_seq_length
    other = load(folder, modules="all", prompt="not ")
    np.testing.assert_allclose(other.encode(SENTENCES), peer.encode(SENTENCES, prompt="not "), rtol=0, atol=1e-5)
    plain = load(folder, modules="all", prompt="")
    np.testing.assert_allclose(plain.encode(SENTENCES), peer.encode(SENTENCES, prompt=""), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("modules", "pooling", "dim"),
    [
        ((MEAN,), "mean", 16),
        ((("Pooling", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),), "cls", 16),
        ((("Pooling", {"pooling_mode": "lasttoken"}),), "last_token", 16),
        ((("Pooling", {"pooling_mode": "weightedmean"}), TANH), "position_mean", 6),
        ((MEAN, TANH, LINEAR), "mean", 4),
    ],
)
def test_what_the_folder_says_is_the_default(folder: Path, modules: Any, pooling: str, dim: int) -> None:
    add_modules(folder, *modules, transformer={"max_seq_length": 9})
    encoder = load(folder)
    assert (encoder.layers, encoder.pooling, encoder.max_length, encoder.dim) == ((3,), pooling, 9, dim)
    assert encoder.encode(SENTENCES).shape == (3, dim)
    told = load(folder, layers="first_last", pooling="max", max_length=20, modules="none")
    assert (told.layers, told.pooling, told.max_length, told.dim) == ((1, 3), "max", 20, 16)


def test_a_folder_without_a_limit_of_its_own_takes_the_tokenizers_and_the_networks(folder: Path) -> None:
    add_modules(folder, MEAN)
    assert load(folder).max_length == 150  # positions
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 40}))
    assert load(folder).max_length == 40


def test_a_limit_beyond_the_positions_is_theirs(tmp_path: Path) -> None:
    for architecture, transformer in (("roberta", None), ("bert", {"max_seq_length": 512})):
        folder = make_encoder(tmp_path / architecture, architecture)
        add_modules(folder, MEAN, transformer=transformer)
        encoder = load(folder)
        assert encoder.max_length == encoder.longest
        assert np.isfinite(encoder.encode(["cat " * 300])).all()


def test_dense_modules_do_what_their_formula_says(folder: Path) -> None:
    pooled = torch.from_numpy(load(folder).encode(SENTENCES))
    add_modules(folder, MEAN, TANH, LINEAR, NORMALIZE)
    with pytest.warns(FlowbertWarning, match="ends in Normalize, which is left out"):
        encoder = load(folder)
    first, second = encoder.after_pooling
    assert isinstance(first, Dense)
    assert isinstance(second, Dense)
    assert second.residual is not None
    hidden = torch.tanh(pooled @ first.linear.weight.T + first.linear.bias)
    expected = hidden @ (second.linear.weight + second.residual.weight).T
    torch.testing.assert_close(torch.from_numpy(encoder.encode(SENTENCES)), expected, atol=1e-5, rtol=1e-5)
    unit = load(folder, modules="all").encode(SENTENCES)
    torch.testing.assert_close(torch.from_numpy(unit), torch.nn.functional.normalize(expected), atol=1e-5, rtol=1e-5)


def test_normalize_is_left_out_aloud_unless_asked_for(folder: Path) -> None:
    key = load(folder, max_length=20).key()
    add_modules(folder, MEAN, NORMALIZE, transformer={"max_seq_length": 20})
    with pytest.warns(FlowbertWarning, match=r"ends in Normalize.*cosines are the same.*modules all applies it"):
        assert load(folder).key() == key  # what was stored before stays valid
    assert load(folder, modules="dense").key() == load(folder, modules="none").key() == key
    assert load(folder, frozen=False).key()["weights"] == key["weights"]
    encoder = load(folder, modules="all")
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(SENTENCES), axis=1), 1, rtol=1e-6)
    assert encoder.describe()["modules"] == "all"
    assert encoder.key() != key


def test_modules_are_part_of_the_identity(folder: Path, tmp_path: Path) -> None:
    add_modules(folder, MEAN, TANH)
    encoder = load(folder)
    assert SentenceEncoder.from_pretrained(**encoder.describe()).key() == encoder.key()
    assert encoder.key() != load(folder, modules="none").key()
    other = make_encoder(tmp_path / "other")
    add_modules(other, MEAN, ("Dense", TANH[1] | {"activation_function": "torch.nn.modules.activation.ReLU"}))
    assert load(other).key() != encoder.key()
    assert load(other, modules="none").key() == load(folder, modules="none").key()


def test_dense_modules_belong_to_their_own_layers_and_pooling(folder: Path) -> None:
    add_modules(folder, MEAN, TANH)
    for options in ({"layers": "first_last"}, {"pooling": "max"}):
        with pytest.raises(UserError, match=r"allowed with the encoder's Dense modules: last \(3\), mean; or modules"):
            load(folder, **options)
    layerwise = LayerwiseEncoder.from_pretrained(str(folder))
    mean = make_pooling("mean")
    layerwise.select([((3,), mean)])
    assert layerwise.encode(SENTENCES).shape == (3, 6)
    with pytest.raises(UserError, match="Dense modules"):
        layerwise.select([((3,), mean), ((1,), mean)])
    with pytest.raises(UserError, match="modules: received dense; allowed for an encoder that is trained: none"):
        load(folder, frozen=False)
    assert load(folder, frozen=False, modules="none").dim == 16


@pytest.mark.parametrize(
    ("modules", "options", "message"),
    [
        ((MEAN,), {"modules": "al"}, r"modules: received 'al'; allowed: .*did you mean 'all'"),
        ((MEAN, ("LSTM", {})), {}, r"modules: .* has Transformer, Pooling, LSTM; allowed: .*or modules none"),
        (
            (("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}),),
            {},
            r"pooling: .* asks for \['max', 'mean'\]; allowed",
        ),
        ((("Pooling", {"pooling_mode": "mean_sqrt_len_tokens"}),), {}, "asks for 'mean_sqrt_len_tokens'"),
        (
            (("Pooling", {"include_prompt": False}),),
            {"prompt": "a "},
            r"prompt: received 'a ', .*\(include_prompt: fal",
        ),
        ((MEAN, ("Dense", TANH[1] | {"activation_function": "os.system"})), {}, r"activation 'os\.system'; allowed"),
        ((MEAN, ("Dense", TANH[1] | {"module_output_name": "x"})), {}, "module_output_name 'x'; allowed"),
    ],
)
def test_what_there_is_not_here_is_one_line(folder: Path, modules: Any, options: Any, message: str) -> None:
    add_modules(folder, *modules)
    with pytest.raises(UserError, match=message):
        load(folder, **options)
    assert load(folder, modules="none", pooling="mean", prompt="").dim == 16


def test_damaged_files_are_one_line(folder: Path) -> None:
    add_modules(folder, MEAN, TANH)
    for file, content in (
        ("2_Dense/model.safetensors", "no tensors"),
        ("2_Dense/config.json", "[]"),
        ("1_Pooling/config.json", "{"),
        ("modules.json", '{"a": 1}'),
        ("modules.json", '[{"a": 1}]'),
    ):
        good = (folder / file).read_bytes()
        (folder / file).write_text(content)
        with pytest.raises(UserError, match=Path(file).parts[0]):
            load(folder)
        (folder / file).write_bytes(good)
    load(folder)


def test_text_is_lowered_if_the_folder_says_so(folder: Path) -> None:
    add_modules(folder, MEAN, transformer={"do_lower_case": True})
    assert load(folder).lengths(["Dog"]) == [3]
    low, high = load(folder).encode(["dog", "Dog"])
    assert np.array_equal(low, high)
    add_modules(folder, MEAN, transformer={"do_lower_case": False})
    low, high = load(folder).encode(["dog", "Dog"])
    assert not np.array_equal(low, high)
