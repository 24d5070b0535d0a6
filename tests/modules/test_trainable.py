"""What SimCSE and Sentence-BERT share: saving, resuming, the optimizer, and the encoder they accept."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.data import make_data
from helpers.encoders import ARCHITECTURES, make_encoder
from pytorch_lightning import Trainer
from safetensors.torch import load_file

from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.saving import trained_settings
from flowbert.errors import UserError
from flowbert.io.digest import digest_json
from flowbert.modules.sbert import SBERTModule
from flowbert.modules.simcse import SimCSEModule
from flowbert.modules.trainable import dropout_rate, set_dropout

SENTENCES = ["the cat sleeps", "a big dog runs on the mat", "été 東京"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _encoder(folder: Path, architecture: str = "bert", **options: Any) -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(str(make_encoder(folder, architecture)), frozen=False, **options)


def _module(encoder: SentenceEncoder, **options: Any) -> SimCSEModule:
    return SimCSEModule(encoder, **{"head": "none", **options})


def _moved(module: SimCSEModule) -> SimCSEModule:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return module


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_saved_folder_is_an_encoder_with_the_same_embeddings(architecture: str, pooling: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path / "start", architecture, pooling=pooling, layers="first_last", max_length=40)
    module = _moved(_module(encoder))
    embeddings = module.sentence_embeddings(SENTENCES)
    assert not np.allclose(embeddings, module.start_embeddings(SENTENCES), atol=1e-3)
    for _ in range(2):  # the second replaces the first
        module.save_fitted(tmp_path / "model")
    folder = tmp_path / "model" / "encoder"
    settings = json.loads((folder / "flowbert.json").read_text())
    assert settings.pop("digest") == digest_json(settings)
    digests = settings.pop("files")
    assert set(digests) == {path.name for path in folder.iterdir()} - {"flowbert.json"}
    assert settings == {"layers": list(encoder.layers), "pooling": pooling, "max_length": 40}
    again = SentenceEncoder.from_pretrained(str(folder), **settings)
    np.testing.assert_allclose(again.encode(SENTENCES), embeddings, atol=1e-6)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["encoder"]
    assert not list(folder.glob("*.bin"))
    assert json.loads((folder / "tokenizer.json").read_text())["truncation"] is None


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_of_a_trained_encoder_is_not_used(name: str, tmp_path: Path) -> None:
    _module(_encoder(tmp_path / "start")).save_fitted(tmp_path / "run" / "model")
    file = tmp_path / "run" / "model" / "encoder" / name
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} is damaged or was changed; needed: the folder as it was written"):
        SentenceEncoder.from_pretrained(str(tmp_path / "run"))
    settings = json.loads((file.parent / "flowbert.json").read_text())
    del settings["files"], settings["digest"]
    (file.parent / "flowbert.json").write_text(json.dumps(settings))
    if name == "model.safetensors":
        assert SentenceEncoder.from_pretrained(str(tmp_path / "run")).dim == 16  # the change is meant
    (file.parent / "config.json").unlink()
    with pytest.raises(UserError, match=r"config.json"):
        SentenceEncoder.from_pretrained(str(tmp_path / "run"))


def test_no_bit_of_the_settings_can_flip_unseen(tmp_path: Path) -> None:
    _module(_encoder(tmp_path / "start")).save_fitted(tmp_path / "run" / "model")
    file = tmp_path / "run" / "model" / "encoder" / "flowbert.json"
    good = file.read_bytes()
    for place in range(len(good)):
        content = bytearray(good)
        content[place] ^= 1 << place % 7
        file.write_bytes(content)
        with suppress(UserError):  # or the flip is one of white space, which plays no role
            found = trained_settings(str(tmp_path / "run"))
            assert found == {name: value for name, value in json.loads(good).items() if name != "digest"}, place


def test_head_that_is_kept_becomes_the_pooler(tmp_path: Path) -> None:
    encoder = _encoder(tmp_path / "start", pooling="cls")
    module = _moved(_module(encoder, head="mlp"))
    module.save_fitted(tmp_path)
    again = SentenceEncoder.from_pretrained(str(tmp_path / "encoder"), pooling="cls_pooler")
    np.testing.assert_allclose(again.encode(SENTENCES), module.sentence_embeddings(SENTENCES), atol=1e-6)
    assert json.loads((tmp_path / "encoder" / "flowbert.json").read_text())["pooling"] == "cls_pooler"
    assert not np.allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-2)


def test_head_that_is_kept_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"head: 'mlp' .* received pooling mean, layers \[3\]; allowed: pooling"):
        _module(_encoder(tmp_path / "a"), head="mlp")
    with pytest.raises(UserError, match=r"ElectraModel has not; allowed with it: mlp_train_only, none"):
        _module(_encoder(tmp_path / "b", "electra", pooling="cls"), head="mlp")


def test_frozen_or_half_precision_encoders_are_refused(tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path))
    with pytest.raises(ValueError, match=r"SimCSEModule: received a frozen encoder; allowed: .*frozen=False"):
        _module(SentenceEncoder.from_pretrained(path))
    with pytest.raises(UserError, match=r"dtype: received torch.bfloat16; allowed in training: float32"):
        _module(SentenceEncoder.from_pretrained(path, dtype="bfloat16", frozen=False))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_dropout_rate_is_set_everywhere(architecture: str, tmp_path: Path) -> None:
    encoder = _encoder(tmp_path, architecture)
    assert dropout_rate(encoder.backbone) == pytest.approx(0.1)
    features = encoder.tokenize(SENTENCES)
    assert not torch.equal(encoder(features), encoder(features))
    _module(encoder, dropout=0.0)
    assert dropout_rate(encoder.backbone) == 0
    assert torch.equal(encoder(features), encoder(features))
    set_dropout(encoder.backbone, 0.3)
    assert dropout_rate(encoder.backbone) == pytest.approx(0.3)


def _trainer(folder: Path, **options: Any) -> Trainer:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }
    return Trainer(accelerator="cpu", devices=1, default_root_dir=folder, **{**quiet, **options})


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
def test_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    def fit(epochs: int, ckpt_path: Path | None = None, total: int = 2) -> SimCSEModule:
        torch.manual_seed(0)
        encoder = SentenceEncoder.from_pretrained("builtin-sample", frozen=False)
        module, data = (
            SimCSEModule(encoder, dropout=0.0, schedule="constant"),
            make_data(ContrastiveDataModule, corpus="builtin-sample", positive="crop", max_sentences=64, batch_size=16),
        )
        trainer = _trainer(tmp_path, max_epochs=epochs, limit_val_batches=0)
        trainer.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
        trainer.save_checkpoint(tmp_path / f"{epochs}-{total}.ckpt")
        return module

    fit(1, total=1)
    resumed = fit(2, tmp_path / "1-1.ckpt").state_dict()
    straight = fit(2).state_dict()
    for name, value in straight.items():
        torch.testing.assert_close(resumed[name], value, atol=1e-6, rtol=1e-5)
    assert not torch.equal(
        straight["trained_encoder.backbone.encoder.layer.0.output.dense.weight"],
        load_file(Path(str(_sample())) / "model.safetensors")["encoder.layer.0.output.dense.weight"].float(),
    )


def _sample() -> Path:
    from flowbert.data.sample import encoder_path

    return encoder_path()


def test_checkpoint_of_another_kind_of_encoder_is_refused(tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path))
    checkpoint: dict[str, Any] = {}
    trained = _moved(_module(SentenceEncoder.from_pretrained(path, frozen=False)))
    trained.on_save_checkpoint(checkpoint)
    _module(SentenceEncoder.from_pretrained(path, frozen=False)).on_load_checkpoint(checkpoint)
    other = _module(SentenceEncoder.from_pretrained(path, frozen=False, pooling="cls"))
    with pytest.raises(UserError, match=r"belongs to another encoder .*pooling: 'mean' there, 'cls' here"):
        other.on_load_checkpoint(checkpoint)


def test_predict_step_and_transforms(tmp_path: Path) -> None:
    module = _module(_encoder(tmp_path))
    torch.testing.assert_close(module.predict_step(SENTENCES, 0), module.sentence_embeddings(SENTENCES))
    ((name, transform),) = module.transforms().items()
    x = torch.ones(2, 3)
    assert name == "simcse"
    assert transform(x) is x
    assert not SBERTModule.frozen_encoder
    assert not SimCSEModule.frozen_encoder
