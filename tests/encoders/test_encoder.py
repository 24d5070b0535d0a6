import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.encoders import ARCHITECTURES, WORDS, ConstantLayers, make_encoder, word_tokenizer
from transformers import AutoModel, AutoTokenizer

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.pooling import POOLINGS
from flowbert.encoders.position_embeddings import NO_LIMIT
from flowbert.errors import UserError


def make_sentences(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 40))) for _ in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "bert")


def reference(folder: Path, sentence: str, layers: tuple[int, ...]) -> torch.Tensor:
    """Mean pooling of one sentence without padding, by transformers alone."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    features = tokenizer([sentence], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        states = model(**features, output_hidden_states=True).hidden_states
    return torch.stack([states[k] for k in layers]).mean(0)[0].mean(0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_agrees_with_transformers(tmp_path: Path, architecture: str) -> None:
    folder = make_encoder(tmp_path, architecture)
    encoder = SentenceEncoder.from_pretrained(str(folder), layers="first_last")
    assert (encoder.dim, encoder.num_layers, encoder.layers) == (16, 3, (1, 3))
    sentences = ["the cat sleeps on the mat", "dog", "a small bird sings not"]
    expected = torch.stack([reference(folder, sentence, (1, 3)) for sentence in sentences])
    torch.testing.assert_close(torch.from_numpy(encoder.encode(sentences)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_neither_order_nor_batches_change_an_embedding(folder: Path, pooling: str) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder), pooling=pooling, max_length=32)
    sentences = make_sentences(60)
    encoder.use_counts(encoder.count_tokens(sentences))
    one_by_one = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    for budget in (1, 50, 400, 10**6):
        np.testing.assert_allclose(encoder.encode(sentences, batch_tokens=budget), one_by_one, rtol=0, atol=1e-5)
    order = random.Random(1).sample(range(60), 60)
    shuffled = encoder.encode([sentences[i] for i in order], batch_tokens=100)
    assert np.array_equal(shuffled, encoder.encode(sentences, batch_tokens=100)[order])
    assert np.unique(one_by_one.round(4), axis=0).shape[0] > 40, "the random encoder tells sentences apart"


def test_poolings_of_bert(folder: Path) -> None:
    sentence = "the dog runs"
    features = AutoTokenizer.from_pretrained(folder)([sentence], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        output = AutoModel.from_pretrained(folder).eval()(**features)
    expected = {
        "mean": output.last_hidden_state[0].mean(0),
        "cls": output.last_hidden_state[0, 0],
        "cls_pooler": output.pooler_output[0],
        "max": output.last_hidden_state[0].amax(0),
    }
    for pooling, value in expected.items():
        encoder = SentenceEncoder.from_pretrained(str(folder), pooling=pooling)
        # Padded by a longer neighbour, which must not matter.
        embedding = torch.from_numpy(encoder.encode([sentence, "the big cat sings in the mat not a bird"]))[0]
        torch.testing.assert_close(embedding, value, rtol=1e-5, atol=1e-5)


def test_cls_is_position_0_of_the_mixed_layers() -> None:
    encoder = SentenceEncoder(ConstantLayers(12), word_tokenizer(), layers=[2, 4], pooling="cls")
    assert encoder.encode(["a"]).tolist() == [[3.0] * 4]


def test_lengths_and_tokens_after_truncation(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder), max_length=6)
    sentences = ["", "cat", "the cat sleeps on the mat"]
    assert encoder.lengths(sentences) == [2, 3, 6]
    features = encoder.tokenize(sentences)
    assert features["attention_mask"].tolist() == [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1] * 6]
    assert features["input_ids"][2, -1] == encoder.tokenizer.sep_token_id
    assert features["input_ids"][0, 2:].tolist() == [encoder.tokenizer.pad_token_id] * 4


def test_progress_counts_every_sentence(folder: Path) -> None:
    done: list[int] = []
    SentenceEncoder.from_pretrained(str(folder)).encode(make_sentences(30), batch_tokens=100, on_batch=done.append)
    assert sum(done) == 30
    assert len(done) > 3


def test_no_sentences(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder))
    result = encoder.encode([])
    assert result.shape == (0, 16)
    assert result.dtype == np.float32
    assert encoder.lengths([]) == []


def test_frozen_stays_frozen(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder), pooling="mean")
    owner = torch.nn.Sequential(encoder).train()
    assert not any(module.training for module in encoder.backbone.modules())
    assert not any(parameter.requires_grad for parameter in owner.parameters())
    features = encoder.tokenize(["the cat sleeps"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = encoder(features)
        again = encoder.encode(["the cat sleeps"])
    assert not result.requires_grad
    assert torch.equal(result, encoder(features))
    assert np.array_equal(again, result.numpy())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_unfrozen_trains(folder: Path, pooling: str) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder), pooling=pooling, frozen=False)
    encoder.use_counts(encoder.count_tokens(["the dog"]))
    encoder.train()
    features = encoder.tokenize(["the cat sleeps"] * 2)
    result = encoder(features)
    assert not torch.equal(result[0], result[1]), "dropout is on"
    result.sum().backward()
    gradients = {name: parameter.grad for name, parameter in encoder.backbone.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values()), "no parameter is left out (DDP)"
    before = encoder.key()["weights"]
    assert np.array_equal(encoder.encode(["the cat sleeps"]), encoder.encode(["the cat sleeps"])), "dropout is off"
    assert encoder.training
    with torch.no_grad():
        next(encoder.backbone.parameters()).add_(1.0)
    assert encoder.key()["weights"] != before


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_precision_is_what_was_asked_for(tmp_path: Path, stored: torch.dtype) -> None:
    folder = make_encoder(tmp_path)
    AutoModel.from_pretrained(folder).to(stored).save_pretrained(folder)
    encoder = SentenceEncoder.from_pretrained(str(folder))
    assert encoder.dtype == torch.float32
    half = SentenceEncoder.from_pretrained(str(folder), dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    full, low = encoder.encode(["the cat"]), half.encode(["the cat"])
    assert low.dtype == np.float32
    assert 0 < np.abs(full - low).max() < 0.1
    assert encoder.key()["dtype"] == "float32"
    assert half.key()["weights"] != encoder.key()["weights"]


def test_overflow_is_an_error(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder))
    with torch.no_grad():
        next(encoder.backbone.parameters()).fill_(torch.nan)
    with pytest.raises(UserError, match=r"'the cat' is not finite in torch.float32"):
        encoder.encode(["the cat"])


def test_key_names_what_decides_the_numbers_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    key = SentenceEncoder.from_pretrained(str(folder)).key()
    assert set(key) == {
        "weights", "config", "tokenizer", "revision", "layers", "pooling", "dtype", "max_length",
    }  # fmt: skip
    moved = folder.rename(tmp_path / "moved")
    assert SentenceEncoder.from_pretrained(str(moved)).key() == key
    assert SentenceEncoder.from_pretrained(str(moved), layers=[3]).key() == key
    for options in ({"layers": "first_last"}, {"pooling": "max"}, {"max_length": 9}):
        assert SentenceEncoder.from_pretrained(str(moved), **options).key() != key
    other = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "other", seed=1)))
    assert other.key() | {"weights": ""} == key | {"weights": ""}
    assert other.key()["weights"] != key["weights"]


def test_key_follows_loaded_weights(folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder))
    before = encoder.key()
    other = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "other", seed=1)))
    torch.nn.Sequential(encoder).load_state_dict(torch.nn.Sequential(other).state_dict())
    assert encoder.key() == other.key() != before


def test_description_loads_the_same_encoder(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder), layers="last2", pooling="max", max_length=20)
    assert SentenceEncoder.from_pretrained(**encoder.describe()).key() == encoder.key()


@pytest.mark.parametrize("max_length", [-1, 2, 151, 10**6])
def test_impossible_max_length(folder: Path, max_length: int) -> None:
    with pytest.raises(UserError, match=rf"max_length: received {max_length}; .* 3 to 150"):
        SentenceEncoder.from_pretrained(str(folder), max_length=max_length)


def test_no_max_length_is_the_longest(folder: Path) -> None:
    assert SentenceEncoder.from_pretrained(str(folder), max_length=0).max_length == 150


def test_a_network_without_a_limit_keeps_the_length_of_its_folder(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "deberta", "deberta")
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8192}')
    assert SentenceEncoder.from_pretrained(str(folder)).max_length == 8192
    assert SentenceEncoder.from_pretrained(str(folder), max_length=0).max_length == NO_LIMIT


def test_longest_max_length_works(tmp_path: Path) -> None:
    for architecture, limit in (("bert", 150), ("roberta", 149), ("mpnet", 148), ("distilbert", 150)):
        folder = make_encoder(tmp_path / architecture, architecture)
        encoder = SentenceEncoder.from_pretrained(str(folder), max_length=limit)
        assert encoder.lengths(["cat " * 200]) == [limit]
        assert np.isfinite(encoder.encode(["cat " * 200])).all()
        with pytest.raises(UserError, match=f"3 to {limit}"):
            SentenceEncoder.from_pretrained(str(folder), max_length=limit + 1)


def test_wrong_options(folder: Path) -> None:
    with pytest.raises(UserError, match=r"pooling: received 'maen'; .*did you mean 'mean'"):
        SentenceEncoder.from_pretrained(str(folder), pooling="maen")
    with pytest.raises(UserError, match=r"layers: received 4, beyond .* 3 blocks"):
        SentenceEncoder.from_pretrained(str(folder), layers=4)
    with pytest.raises(UserError, match=r"layers: received \[1, 3\]; allowed with pooling cls_pooler"):
        SentenceEncoder.from_pretrained(str(folder), layers="first_last", pooling="cls_pooler")
    with pytest.raises(ValueError, match="batch_tokens: received 0"):
        SentenceEncoder.from_pretrained(str(folder)).encode(["a"], batch_tokens=0)


def test_a_sentence_without_tokens_is_an_error() -> None:
    tokenizer = word_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None
    encoder = SentenceEncoder(ConstantLayers(), tokenizer)
    with pytest.raises(UserError, match="'' has no tokens"):
        encoder.encode(["a", ""])


def test_an_encoder_with_a_pooler_needs_the_right_layers() -> None:
    backbone = ConstantLayers()
    backbone.pooler = SimpleNamespace()  # type: ignore[assignment]
    with pytest.raises(UserError, match=r"allowed with pooling cls_pooler: last \(12\)"):
        SentenceEncoder(backbone, word_tokenizer(), layers="last2", pooling="cls_pooler")
