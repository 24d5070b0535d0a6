"""Gradient caching against the plain step."""

from pathlib import Path

import pytest
import torch
from helpers.encoders import WORDS, make_encoder
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.losses.info_nce import InfoNCE
from flowbert.modules.trainable import set_dropout
from flowbert.training.gradient_cache import embed_with_gradient_cache, split_features

SENTENCES = [f"{WORDS[i % 16]} {WORDS[(3 * i + 1) % 16]} {WORDS[(7 * i + 2) % 16]}" for i in range(10)]


@pytest.fixture
def encoder(tmp_path: Path) -> SentenceEncoder:
    torch.set_num_threads(1)
    return SentenceEncoder.from_pretrained(str(make_encoder(tmp_path)), frozen=False)


def _step(encoder: SentenceEncoder, chunks: list[dict[str, Tensor]], chunk_size: int | None) -> list[Tensor]:
    torch.manual_seed(0)
    encoder.zero_grad()
    h = embed_with_gradient_cache(encoder.embed_chunks, chunks, chunk_size)
    loss = InfoNCE()(h[:5], h[5:])
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in encoder.parameters() if p.grad is not None)]


def test_equals_one_whole_batch_without_dropout(encoder: SentenceEncoder) -> None:
    set_dropout(encoder.backbone, 0.0)
    whole = [encoder.tokenize(SENTENCES)]
    for size in (1, 3, 10, 99):
        for a, b in zip(_step(encoder, whole, None), _step(encoder, whole, size), strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_equals_the_same_chunks_with_dropout(encoder: SentenceEncoder) -> None:
    chunks = split_features(encoder.tokenize(SENTENCES), 3)
    plain, cached = _step(encoder, chunks, None), _step(encoder, chunks, 3)
    for a, b in zip(plain, cached, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)
    set_dropout(encoder.backbone, 0.0)
    assert not torch.allclose(plain[0], _step(encoder, chunks, None)[0], atol=1e-3), "dropout plays no part"


def test_equals_the_same_chunks_under_autocast(encoder: SentenceEncoder) -> None:
    chunks = split_features(encoder.tokenize(SENTENCES), 4)
    with torch.autocast("cpu", torch.bfloat16):
        plain, cached = _step(encoder, chunks, None), _step(encoder, chunks, 4)
    for a, b in zip(plain, cached, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


def test_activations_are_not_kept(encoder: SentenceEncoder) -> None:
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    def saved(size: int | None) -> int:
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            embed_with_gradient_cache(encoder.embed_chunks, [encoder.tokenize(SENTENCES)], size)
        return sum(kept)

    assert saved(2) < saved(None) / 20


def test_chunk_size_must_be_positive(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="chunk_size: received 0; allowed: 1 or more"):
        embed_with_gradient_cache(encoder.embed_chunks, [encoder.tokenize(SENTENCES)], 0)
