"""The tiny BERT of the sample can be made again."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from flowbert.data.sample import encoder_path, sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.modules.sample_encoder import pretrain_sample_encoder

torch.set_num_threads(1)


def test_pretraining_learns_and_is_repeatable(tmp_path: Path) -> None:
    text = sample_corpus()[:160]
    options: dict[str, Any] = {"seed": 0, "steps": 20, "batch_size": 16, "learning_rate": 3e-3, "sentences": text}
    state = torch.get_rng_state()
    reports = [pretrain_sample_encoder(tmp_path / name, **options) for name in "ab"]
    assert torch.equal(torch.get_rng_state(), state)
    assert reports[0] == reports[1]
    assert reports[0]["end"]["val/mlm_loss"] < reports[0]["start"]["val/mlm_loss"] - 1
    assert len(reports[0]["curve"]) == 20
    files = [load_file(tmp_path / name / "model.safetensors") for name in "ab"]
    assert all(torch.equal(files[0][name], files[1][name]) for name in files[0])
    assert len(AutoTokenizer.from_pretrained(tmp_path / "a")) <= 2000
    with pytest.raises(UserError, match="a: there is something already; allowed: a new or an empty folder"):
        pretrain_sample_encoder(tmp_path / "a", steps=1)


def test_the_folder_is_laid_out_as_the_one_in_the_package(tmp_path: Path) -> None:
    pretrain_sample_encoder(tmp_path / "new" / "encoder", steps=1, sentences=sample_corpus()[:64])
    folder = tmp_path / "new" / "encoder"
    assert [path.name for path in folder.parent.iterdir()] == ["encoder"]
    assert {path.name for path in folder.iterdir()} == {path.name for path in encoder_path().iterdir()}
    ours, shipped = (load_file(path / "model.safetensors") for path in (folder, encoder_path()))
    assert set(ours) == set(shipped)
    assert {tensor.dtype for tensor in ours.values()} == {torch.float16}
    encoder = SentenceEncoder.from_pretrained(str(folder))
    assert (encoder.dim, encoder.num_layers, encoder.dtype) == (128, 4, torch.float32)
