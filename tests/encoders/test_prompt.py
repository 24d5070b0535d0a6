"""A prompt before every sentence: read, counted, pooled, stored and saved with the rest."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder, Whitening, load
from flowbert.cli import main
from flowbert.encoders import check_same_encoder
from flowbert.encoders.saving import write_encoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.evaluation.embeddings import encoder_columns
from flowbert.methods.embedder import save_encoder

PROMPT = "the big "
SENTENCES = ["cat sleeps", "dog", "bird sings in a mat"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "encoder")


def load_encoder(folder: Path, **options: Any) -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(str(folder), **options)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last_token", "position_mean"])
def test_it_is_text_before_every_sentence(folder: Path, pooling: str) -> None:
    prompted = load_encoder(folder, prompt=PROMPT, pooling=pooling)
    expected = load_encoder(folder, pooling=pooling).encode([PROMPT + text for text in SENTENCES])
    np.testing.assert_allclose(prompted.encode(SENTENCES), expected, atol=1e-6)
    assert prompted.lengths(["dog"]) == [5]


def test_it_is_counted_and_cut_with_the_sentence(folder: Path) -> None:
    prompted, plain = load_encoder(folder, prompt=PROMPT, max_length=5), load_encoder(folder, max_length=5)
    assert prompted.count_tokens(SENTENCES) == plain.count_tokens([PROMPT + text for text in SENTENCES])
    assert prompted.lengths(SENTENCES) == [5, 5, 5]


def test_it_is_part_of_the_identity_where_there_is_one(folder: Path) -> None:
    plain, prompted = load_encoder(folder), load_encoder(folder, prompt=PROMPT)
    assert "prompt" not in plain.key()
    assert load_encoder(folder, prompt="").key() == plain.key()
    assert prompted.key() == plain.key() | {"prompt": PROMPT}
    assert SentenceEncoder.from_pretrained(**prompted.describe()).key() == prompted.key()
    assert encoder_columns(prompted)["encoder"] == f"{folder}; prompt 'the big '"
    for there, here in ((plain, prompted), (prompted, plain)):
        with pytest.raises(UserError, match=r"prompt: '.*' there, '.*' here"):
            check_same_encoder(there.describe() | there.key(), here.key(), "flow")
    old = plain.key()
    check_same_encoder(old, plain.key(), "flow")


def test_a_saved_model_has_it(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = load_encoder(folder, prompt=PROMPT)
    vectors = encoder.encode([*SENTENCES, *(f"a {text}" for text in SENTENCES)])
    model = tmp_path / "run" / "model"
    fitted = Whitening(shrinkage=0.5).fit(vectors)
    fitted.save(model / "whitening.safetensors")
    save_encoder(model, encoder)
    loaded = load(tmp_path / "run", "whitening")
    assert loaded.encoder.prompt == PROMPT
    np.testing.assert_allclose(loaded.encode(SENTENCES), fitted.transform(vectors[:3]).numpy(), atol=1e-4)
    options = ["encode", "--model", str(tmp_path / "run"), "--sentences", '["a cat"]']
    output = ["--output", str(tmp_path / "v.npy")]
    main([*options, "--encoder.prompt", PROMPT, *output])
    with pytest.raises(SystemExit):
        main([*options, "--encoder.prompt", "query: ", *output])
    assert "--encoder.prompt: received 'query: '; allowed with" in capsys.readouterr().err


def test_descriptions_without_one_are_of_none(folder: Path, tmp_path: Path) -> None:
    """A model of version 0.1.0, whose encoder's folder says more today than was read then."""
    model = tmp_path / "run" / "model"
    encoder = load_encoder(folder)
    Whitening(shrinkage=0.5).fit(encoder.encode(SENTENCES)).save(model / "whitening.safetensors")
    save_encoder(model, encoder)
    saved = json.loads((model / "encoder.json").read_text())
    assert {"prompt": "", "modules": "none"}.items() <= saved.items()
    prompts = {"prompts": {"q": PROMPT}, "default_prompt_name": "q"}
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (folder / "modules.json").write_text(json.dumps(modules))
    assert load_encoder(folder).prompt == PROMPT
    assert load(tmp_path / "run", "whitening").encoder.prompt == ""


def test_a_trained_encoder_has_it(folder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(folder, frozen=False)
    settings = {"layers": [3], "pooling": "mean", "max_length": 20, "prompt": PROMPT}
    write_encoder(tmp_path / "trained", encoder.backbone, encoder.tokenizer, settings)
    assert load_encoder(tmp_path / "trained").prompt == PROMPT
    with pytest.warns(FlowbertWarning, match="was trained with prompt 'the big ', and is used with ''"):
        load_encoder(tmp_path / "trained", prompt="")


def test_on_the_command_line_it_keeps_its_space(folder: Path, tmp_path: Path) -> None:
    for prompt in (PROMPT, "query: ", "5"):
        output = tmp_path / "v.npy"
        encoder = ["--encoder.path", str(folder), "--encoder.prompt", prompt]
        main(["encode", *encoder, "--sentences", '["dog"]', "--output", str(output)])
        np.testing.assert_allclose(np.load(output), load_encoder(folder, prompt=prompt).encode(["dog"]), atol=1e-6)
