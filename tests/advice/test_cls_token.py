"""[CLS] has a weight where it tells views of a sentence apart, and only there."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder
from flowbert.advice.cls_token import cls_holds_sentence, holds_sentence, warn_of_cls
from flowbert.data.sample import sample_corpus
from flowbert.encoders.tokens import begins_with_cls
from flowbert.errors import FlowbertWarning

SENTENCES = list(dict.fromkeys(sample_corpus()))[:300]


def views(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 16, generator=generator)
    return x, x + noise * torch.randn(400, 16, generator=generator)


def test_it_holds_the_sentence_where_its_views_are_as_near_as_those_of_the_mean() -> None:
    assert holds_sentence(cls=views(0.5), mean=views(0.5))
    assert holds_sentence(cls=views(0.3), mean=views(0.5))
    assert not holds_sentence(cls=views(3.0), mean=views(0.5))


@pytest.mark.parametrize("name", ["minilm-mlm", "all-MiniLM-L6-v2"])
def test_real_encoders_hold_it(real: Path, name: str) -> None:
    captions = (real / "data" / "corpora" / "captions.txt").read_text(encoding="utf-8").splitlines()[:200]
    assert cls_holds_sentence(SentenceEncoder.from_pretrained(str(real / "models" / name), modules="none"), captions)


@pytest.mark.parametrize("count", [0, 1, 49])
def test_too_few_sentences_tell_nothing(count: int) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", pooling="zipf:cls=16")
    assert cls_holds_sentence(encoder, SENTENCES[:count]) is None
    warn_of_cls(encoder, lambda: SENTENCES[:count])


def test_words_alone_have_no_views_and_tell_nothing() -> None:
    words = [f"word{number}" for number in range(300)]
    assert not cls_holds_sentence(SentenceEncoder.from_pretrained("builtin-sample"), words)


def test_a_decoder_has_no_cls(tmp_path: Path) -> None:
    decoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path, "gpt2")))
    assert not begins_with_cls(decoder.tokenizer)
    assert not cls_holds_sentence(decoder, SENTENCES)


def test_vectors_that_are_all_alike_tell_nothing() -> None:
    constant = torch.ones(400, 16), torch.ones(400, 16)
    assert not holds_sentence(cls=constant, mean=views(0.5))


def test_an_encoder_that_is_trained_is_left_alone() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", pooling="zipf:cls=16", frozen=False)
    warn_of_cls(encoder, lambda: SENTENCES)
    with pytest.raises(ValueError, match="a frozen one"):
        cls_holds_sentence(encoder, SENTENCES)
    assert encoder.backbone.training


def test_a_weight_of_a_cls_that_was_never_trained_is_warned_of() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="embedding_last", pooling="zipf:cls=16")
    before = encoder.key()
    with pytest.warns(FlowbertWarning, match=r"zipf:cls=16 weighs \[CLS\], which does not show to hold the sentence"):
        warn_of_cls(encoder, lambda: SENTENCES)
    assert encoder.key() == before


def test_the_encoder_is_asked_where_the_run_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="embedding_last", pooling="zipf:cls=16")
    asked: list[torch.device] = []

    def holds(encoder: SentenceEncoder, *_: object) -> bool:
        asked.append(encoder.device)
        return True

    monkeypatch.setattr("flowbert.advice.cls_token.cls_holds_sentence", holds)
    warn_of_cls(encoder, lambda: SENTENCES, device="meta")
    assert asked == [torch.device("meta")]


def test_without_a_weight_no_sentence_is_asked_for() -> None:
    asked: list[str] = []

    def sentences() -> list[str]:
        asked.append("sentences")
        return SENTENCES

    for pooling in ("zipf", "mean", "zipf:cls=16"):
        with nullcontext() if "cls" not in pooling else pytest.warns(FlowbertWarning):
            warn_of_cls(SentenceEncoder.from_pretrained("builtin-sample", pooling=pooling), sentences)
    assert len(asked) == 1
