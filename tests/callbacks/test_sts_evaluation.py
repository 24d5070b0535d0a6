"""The STS figures that a fit logs are those of the evaluation itself, for raw, baselines and the method."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data
from pytorch_lightning import Trainer

from flowbert.callbacks import STSEvaluation, WhiteningBaseline
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.modules import FlowModule
from flowbert.tasks.pairs import embed_pairs, evaluate_pairs


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning")
def test_figures_of_every_method_on_each_split(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    options: dict[str, Any] = {"corpus": "builtin-sample", "max_sentences": 800, "store": "memory"}
    data = make_data(EmbeddingDataModule, encoder, **options)
    module, evaluation, whitening = FlowModule(encoder=encoder, depth=1), STSEvaluation(), WhiteningBaseline()
    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "num_sanity_val_steps": 0, "default_root_dir": tmp_path}
    trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=[whitening, evaluation], **quiet)
    trainer.fit(module, datamodule=data)
    (logged,) = trainer.test(module, datamodule=data, verbose=False)
    (task,) = data.tasks
    assert [(found.method, found.trained) for found in evaluation.figures] == [
        ("raw", False),
        ("whitening", False),
        ("flow", True),
    ]
    maps = {"raw": lambda x: x, "whitening": whitening.transform, "flow": module.embed}
    with torch.no_grad():
        for name, transform in maps.items():
            expected = evaluate_pairs(embed_pairs(task, "test", data.embeddings), transform)
            assert logged[f"{name}/SAMPLE/test/spearman_all"] == pytest.approx(expected.all, abs=1e-6)
            assert logged[f"{name}/SAMPLE/test/uniformity"] == pytest.approx(expected.uniformity, abs=1e-5)
    assert not {name for name in logged if "/dev/" in name}
