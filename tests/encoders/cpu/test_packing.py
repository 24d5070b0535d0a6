"""Packed sentences against padded ones: the same vectors and gradients, without computing padding."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.encoders import WORDS, make_encoder
from torch import Tensor
from transformers.models.bert.modeling_bert import BertSelfAttention

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.packing import Packing, packed_attention
from flowbert.encoders.cpu.training import fast_training
from flowbert.modules.masking import IGNORED, predict_chosen, predictor_above
from flowbert.modules.trainable import set_dropout

PACKED = ("bert", "roberta", "distilbert", "electra", "albert", "camembert", "xlm-roberta")
pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = ["the cat", "a big dog runs on the mat in a mat", "été", "a bird sings not", "", "the dog sleeps on a mat"]


def _encoder(folder: Path, architecture: str = "bert", **options: Any) -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(str(make_encoder(folder, architecture)), frozen=False, **options)


def _chunks(encoder: SentenceEncoder) -> list[dict[str, Tensor]]:
    return [encoder.tokenize(SENTENCES[:3]), encoder.tokenize(SENTENCES[3:]), encoder.tokenize(["a cat", "a dog"])]


def _gradients(encoder: SentenceEncoder, embeddings: Tensor) -> list[Tensor]:
    weights = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(1))
    encoder.zero_grad()
    (embeddings * weights).sum().backward()  # type: ignore[no-untyped-call]
    return [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("architecture", PACKED)
def test_same_vectors_and_gradients_as_padded(architecture: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, architecture, layers="first_last")
    set_dropout(encoder.backbone, 0.0)
    padded = encoder.embed_chunks(_chunks(encoder))
    gradients = _gradients(encoder, padded)
    with fast_training(encoder):
        assert encoder.packs
        packed = encoder.embed_chunks(_chunks(encoder))
        torch.testing.assert_close(packed, padded, atol=2e-6, rtol=1e-5)
        for a, b in zip(_gradients(encoder, packed), gradients, strict=True):
            torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_encode_gives_the_same_before_during_and_after(pooling: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, pooling=pooling)
    before = encoder.encode(SENTENCES)
    with fast_training(encoder):
        torch.testing.assert_close(torch.from_numpy(encoder.encode(SENTENCES)), torch.from_numpy(before))
    assert (encoder.encode(SENTENCES) == before).all()


def test_a_sentence_sees_itself_alone(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path).eval()
    with fast_training(encoder):
        alone = torch.cat([encoder.embed_chunks([encoder.tokenize([sentence])]) for sentence in SENTENCES])
        torch.testing.assert_close(encoder.embed_chunks([encoder.tokenize(SENTENCES)]), alone)


def test_layers_compute_no_padding(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path)
    chunks = _chunks(encoder)
    computed: list[int] = []
    encoder.backbone.encoder.layer[0].intermediate.register_forward_hook(  # type: ignore[index,union-attr]
        lambda _module, _inputs, output: computed.append(output.shape[:-1].numel())
    )
    encoder.embed_chunks(chunks)
    padded, real = sum(c["input_ids"].numel() for c in chunks), sum(int(c["attention_mask"].sum()) for c in chunks)
    assert sum(computed) == padded > real
    computed.clear()
    with fast_training(encoder):
        encoder.embed_chunks(chunks)
    assert computed == [real]


def test_dropout_of_the_attention(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path)
    set_dropout(encoder.backbone, 0.0)
    features = [encoder.tokenize(["the cat"] * 400)]
    with fast_training(encoder):
        assert encoder.embed_chunks(features).std(dim=0).max() < 1e-5
        for module in encoder.backbone.modules():
            if isinstance(module, BertSelfAttention):
                module.dropout.p = 0.3
        torch.manual_seed(0)
        dropped = encoder.embed_chunks(features)
        assert dropped.std(dim=0).max() > 1e-2
        torch.manual_seed(0)
        assert torch.equal(encoder.embed_chunks(features), dropped)
        assert encoder.eval().embed_chunks(features).std(dim=0).max() < 1e-5


def test_bfloat16_is_close(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path).eval()
    exact = encoder.embed_chunks(_chunks(encoder))
    with fast_training(encoder), torch.autocast("cpu", torch.bfloat16):
        rounded = encoder.embed_chunks(_chunks(encoder))
    assert torch.nn.functional.cosine_similarity(exact, rounded).min() > 0.999


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert"])
def test_masked_language_model(architecture: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, architecture)
    set_dropout(encoder.backbone, 0.0)
    model = predictor_above(encoder, seed=0)
    chunks = _chunks(encoder)
    generator = torch.Generator().manual_seed(0)
    labels = []
    for chunk in chunks:
        chosen = (torch.rand(chunk["input_ids"].shape, generator=generator) < 0.5) & chunk["attention_mask"].bool()
        labels.append(torch.where(chosen, chunk["input_ids"], IGNORED))
    padded, wanted = predict_chosen(model, encoder, chunks, labels)
    with packed_attention(encoder.backbone):
        packed, wanted_packed = predict_chosen(model, encoder, chunks, labels)
    assert packed.shape == (sum(int((label != IGNORED).sum()) for label in labels), len(WORDS) + 5)
    assert torch.equal(wanted_packed, wanted)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["mpnet", "deberta"])  # positions inside of the attention
def test_other_networks_stay_padded(architecture: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, architecture)
    before = encoder.encode(SENTENCES)
    with fast_training(encoder):
        assert not encoder.packs
    assert (encoder.encode(SENTENCES) == before).all()


def test_the_pooler_of_the_network_stays_padded(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, pooling="cls_pooler")
    with fast_training(encoder):
        assert not encoder.packs


def test_flatten_and_unpack() -> None:
    masks = [torch.tensor([[1, 1, 1], [1, 0, 0]]), torch.tensor([[1, 1]])]
    packing = Packing([{"attention_mask": mask, "input_ids": 10 * mask} for mask in masks], first=2)
    inputs = packing.inputs()
    assert inputs["position_ids"].tolist() == [[2, 3, 4, 2, 2, 3]]
    assert inputs["input_ids"].tolist() == [[10] * 6]
    first, second = packing.unpack(torch.arange(12.0).reshape(1, 6, 2))
    assert first[masks[0].bool()].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert second.tolist() == [[[8, 9], [10, 11]]]
