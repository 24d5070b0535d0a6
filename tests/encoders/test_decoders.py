"""Decoders as encoders: no padding token, no special tokens, and each token has seen those before it only."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.encoders import DECODERS, WORDS, make_encoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from flowbert import SentenceEncoder
from flowbert.encoders.pooling import TOKEN_POOLINGS
from flowbert.errors import UserError

SENTENCES = ["the cat sleeps on the mat", "dog", "a small bird sings not"]


@pytest.fixture(scope="module", params=DECODERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("decoders") / request.param, request.param)


@pytest.fixture(scope="module", params=[*TOKEN_POOLINGS, "idf"])
def encoder(request: pytest.FixtureRequest, folder: Path) -> SentenceEncoder:
    made = SentenceEncoder.from_pretrained(str(folder), pooling=request.param, layers="first_last")
    made.use_counts(made.count_tokens(SENTENCES))
    return made


def test_the_last_token_of_the_last_layer_is_that_of_transformers(folder: Path) -> None:
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    assert tokenizer.pad_token is None
    with torch.no_grad():
        found = [network(**_features(tokenizer, text)).last_hidden_state[0, -1] for text in SENTENCES]
    encoder = SentenceEncoder.from_pretrained(str(folder), pooling="last_token")
    np.testing.assert_allclose(encoder.encode(SENTENCES), torch.stack(found), rtol=1e-5, atol=1e-5)
    assert encoder.tokenizer.pad_token == "<end>"
    assert encoder.tokenize(SENTENCES)["attention_mask"].sum(1).tolist() == [6, 1, 5]


def _features(tokenizer: object, text: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = tokenizer([text], return_tensors="pt")  # type: ignore[operator]
    return {name: found[name] for name in ("input_ids", "attention_mask")}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.sampled_from([*WORDS, "<end>"]), min_size=1, max_size=12).map(" ".join), min_size=1, max_size=6
    )
)
def test_padding_changes_no_vector(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Alone is as in a batch with longer ones; the token that fills up may be in the text as well."""
    alone = np.concatenate([encoder.encode([text]) for text in sentences])
    together = encoder.encode([*sentences, "mat " * 20], batch_tokens=10**6)[:-1]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


def test_the_length_is_limited_by_the_positions(folder: Path) -> None:
    if folder.name == "gpt2":
        with pytest.raises(UserError, match="max_length: received 151; allowed with this encoder: 1 to 150"):
            SentenceEncoder.from_pretrained(str(folder), max_length=151)
    encoder = SentenceEncoder.from_pretrained(str(folder), max_length=150)
    assert np.isfinite(encoder.encode(["cat " * 200])).all()


def test_a_sentence_without_a_token_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="'' has no tokens"):
        SentenceEncoder.from_pretrained(str(folder)).encode(["cat", ""])


def test_without_an_end_token_there_is_nothing_to_fill_up_with(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "gpt2", "gpt2")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token": None}))
    with pytest.raises(UserError, match="its tokenizer has neither a padding nor an end token; needed: one"):
        SentenceEncoder.from_pretrained(str(folder))
