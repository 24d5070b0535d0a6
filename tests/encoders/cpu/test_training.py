"""The switch for fast training on a CPU: what is on inside, and that nothing of it stays, whatever ends it."""

from pathlib import Path

import pytest
from helpers.encoders import make_encoder
from torch import nn

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.attention import attention_of
from flowbert.encoders.cpu.dropout import FastDropout
from flowbert.encoders.cpu.training import fast_training

SENTENCES = ["the cat", "a big dog runs on the mat"]


def _encoder(folder: Path, architecture: str = "bert") -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(str(make_encoder(folder, architecture)), frozen=False)


def _dropouts(encoder: SentenceEncoder) -> set[type[nn.Module]]:
    return {type(module) for module in encoder.backbone.modules() if isinstance(module, nn.Dropout)}


def test_importing_it_touches_no_encoder(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path)
    assert (attention_of(encoder.backbone), encoder.packs, _dropouts(encoder)) == ("sdpa", False, {nn.Dropout})


@pytest.mark.parametrize("interruption", [None, KeyboardInterrupt, ValueError])
def test_nothing_stays(interruption: type[BaseException] | None, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path).eval()
    before = encoder.encode(SENTENCES)
    try:
        with fast_training(encoder):
            assert encoder.packs
            assert _dropouts(encoder) == {FastDropout}
            if interruption is not None:
                raise interruption
    except (KeyboardInterrupt, ValueError):
        pass
    assert (attention_of(encoder.backbone), encoder.packs, _dropouts(encoder)) == ("sdpa", False, {nn.Dropout})
    assert (encoder.encode(SENTENCES) == before).all()


def test_plain_attention_where_sentences_cannot_be_packed(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, "mpnet")
    before = attention_of(encoder.backbone)
    with fast_training(encoder):
        assert (attention_of(encoder.backbone), encoder.packs) == ("eager", False)
    assert attention_of(encoder.backbone) == before


def test_other_devices_are_left_alone(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path).to("meta")
    with fast_training(encoder):
        assert (encoder.packs, _dropouts(encoder)) == (False, {nn.Dropout})


def test_transformers_still_says_which_attention_a_network_computes(tmp_path: Path) -> None:
    # It has no public name for it: if this fails, cpu/attention.py must read it in another way.
    encoder = _encoder(tmp_path)
    for name in ("eager", "sdpa"):
        encoder.backbone.set_attn_implementation(name)  # type: ignore[operator]
        assert attention_of(encoder.backbone) == name
