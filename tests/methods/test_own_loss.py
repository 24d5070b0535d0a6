"""A contrastive loss of a user's own module: by its text, in checkpoints, compared, named."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.fitting import fit, predict
from flowbert.methods import SimCSEModule
from flowbert.methods.losses import LOSSES

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


def test_own_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "margins.py").write_text(MODULE)
    text = "margins.Margin:margin=0.2"

    def run(function: Any, folder: str, loss: str | None, **options: Any) -> Any:
        model = {} if loss is None else {"loss": loss}
        options |= {"model": model, "run_dir": tmp_path / folder}
        return function("simcse", **OPTIONS, **options)

    whole = run(fit, "first", text)
    record = json.loads((tmp_path / "first" / "results.json").read_text())["record"]
    assert record["training"]["model.loss"] == text
    path = tmp_path / "first" / "checkpoints" / "last.ckpt"
    with pytest.raises(
        UserError, match=r"^model\.loss: .*=0\.3' .* expected '.*=0\.2'"
    ):
        run(fit, "second", "margins.Margin:margin=0.3", ckpt_path=path)
    again = run(fit, "second", None, ckpt_path=path)
    assert again.score("simcse", "SAMPLE") == whole.score("simcse", "SAMPLE")
    encoder = SentenceEncoder(frozen=False)
    module: Any = SimCSEModule.load_from_checkpoint(path, encoder=encoder)
    assert (module.loss.margin, module.loss.scale.item() == 1) == (0.2, False)
    # Another process, which has not imported it.
    monkeypatch.delitem(sys.modules, "margins")
    encoder = SentenceEncoder(frozen=False)
    with pytest.raises(UserError, match=r"^loss: .* margins; expected .* imported"):
        SimCSEModule.load_from_checkpoint(path, encoder=encoder)
    with pytest.raises(UserError, match=r"^loss: .* margins; expected .* imported"):
        run(predict, "third", None, ckpt_path=path)
    assert "margins" not in sys.modules
    assert run(predict, "third", text, ckpt_path=path).is_file()


def test_texts_of_losses() -> None:
    text = "infonce:temperature=0.05:hard_negative_weight=0.5"
    assert LOSSES.normalize(text) == "infonce:hard_negative_weight=0.5"
    with pytest.raises(UserError, match=r"^loss: received 'infonse'.*'infonce'"):
        SimCSEModule(SentenceEncoder(frozen=False), "infonse")
