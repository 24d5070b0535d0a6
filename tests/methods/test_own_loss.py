"""A contrastive loss of a user's own module: by its text, in checkpoints, compared, named."""

import importlib
import json
import sys
from typing import Any

import numpy as np

from experiments.small import write_pairs
from flowbert.data.corpus import load_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.fitting import fit, predict
from flowbert.methods import SimCSEModule
from helpers import refused

MODULE = '''
import torch
from flowbert.methods.losses import ContrastiveLoss

class Margin(ContrastiveLoss):
    """Hinge on cosines, with a scale that is learned."""

    def __init__(self, margin: float = 0.1) -> None:
        super().__init__()
        self.margin = margin
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, first, second, hard=None):
        cosines = torch.nn.functional.cosine_similarity(first[:, None], second, dim=2)
        gaps = self.margin + self.scale * (cosines - cosines.diag()[:, None])
        return gaps.relu().mean()
'''
OPTIONS: dict[str, Any] = {
    "corpus": "builtin-sample",
    "max_sentences": 24,
    "bootstrap": 0,
    "data": {"batch_size": 8},
    "trainer": {
        "accelerator": "cpu",
        "max_epochs": 1,
        "limit_val_batches": 0,
        "enable_progress_bar": False,
    },
}


def test_own_loss(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "margins.py").write_text(MODULE)
    text = "margins.Margin:margin=0.2"

    folder = tmp_path / "first"
    pairs = write_pairs(tmp_path / "pairs.tsv")
    fit("simcse", **OPTIONS, tasks=pairs, model={"loss": text}, run_dir=folder)
    record = json.loads((folder / "results.json").read_text())["record"]
    assert record["training"]["model.loss"] == text
    path = folder / "checkpoints" / "last.ckpt"
    encoder = SentenceEncoder(frozen=False)
    module = SimCSEModule.load_from_checkpoint(path, encoder=encoder)
    assert (module.loss.margin, module.loss.scale.item() == 1) == (0.2, False)
    # Another process, which has not imported it.
    monkeypatch.delitem(sys.modules, "margins")
    encoder = SentenceEncoder(frozen=False)
    refused(
        r"^loss: .* margins; expected .* imported",
        SimCSEModule.load_from_checkpoint,
        path,
        encoder=encoder,
    )
    refused(r"^loss: .* margins; expected .* imported", predict, folder)
    assert "margins" not in sys.modules
    importlib.import_module("margins")
    vectors = np.load(predict(folder))
    corpus = load_corpus("builtin-sample").sample(24, 0).sentences
    expected = SentenceEncoder(str(folder)).encode(corpus)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
