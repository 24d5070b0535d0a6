"""STS at each validation and test: raw, baselines and the trained method; what stays the same is computed once."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.data import make_data
from pytorch_lightning import Trainer
from torch import Tensor

from flowbert.callbacks import STSEvaluation, WhiteningBaseline
from flowbert.data.sts import STSTask, Subset
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.modules import FlowModule
from flowbert.processes import ALONE
from flowbert.tasks.pairs import embed_pairs, evaluate_pairs

SENTENCES = [f"sentence {number}" for number in range(12)]
ROWS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


def subset(start: int) -> Subset:
    return Subset(
        "all", tuple(SENTENCES[start : start + 4]), tuple(SENTENCES[start + 4 : start + 8]), np.arange(2.0, 6.0)
    )


TASKS = [STSTask("A", {"dev": [subset(0)], "test": [subset(4)]}), STSTask("B", {"test": [subset(2)]})]


class Module:
    """What the callback asks of a LightningModule."""

    def __init__(self, frozen: bool) -> None:
        self.frozen_encoder = frozen
        self.logged: dict[str, float] = {}
        self.asked: list[str] = []
        self.shift = 0.0

    def start_embeddings(self, sentences: Sequence[str]) -> Tensor:
        self.asked += sentences
        return ROWS[[SENTENCES.index(text) for text in sentences]]

    def sentence_embeddings(self, sentences: Sequence[str]) -> Tensor:
        return ROWS[[SENTENCES.index(text) for text in sentences]] + self.shift

    def transforms(self) -> dict[str, Any]:
        return {"trained": lambda rows: rows * torch.tensor([1.0, -2.0, 3.0, 0.5])}

    def log_dict(self, values: dict[str, Any]) -> None:
        self.logged |= {name: float(value) for name, value in values.items()}


class Shifted:
    """A baseline."""

    name = "shifted"
    calls = 0

    def transform(self, embeddings: Tensor) -> Tensor:
        self.calls += 1
        return embeddings + 5


def trainer_of(*callbacks: object) -> Any:
    data = SimpleNamespace(tasks=TASKS)
    return SimpleNamespace(callbacks=list(callbacks), datamodule=data, strategy=ALONE)


def test_names_say_method_task_and_split() -> None:
    evaluation, module = STSEvaluation(), Module(frozen=True)
    given: Any = module
    evaluation.on_validation_epoch_end(trainer_of(Shifted(), evaluation), given)
    names = {name.rsplit("/", 1)[0] for name in module.logged}
    assert names == {f"{m}/{place}" for m in ("raw", "shifted", "trained") for place in ("A/dev", "B/test")}
    assert {name.rsplit("/", 1)[1] for name in module.logged} >= {"spearman_all", "alignment", "uniformity"}
    assert [(f.method, f.trained) for f in evaluation.figures[:3]] == [
        ("raw", False),
        ("shifted", False),
        ("trained", True),
    ]
    evaluation.on_test_epoch_end(trainer_of(evaluation), given)
    assert "raw/A/test/spearman_all" in module.logged
    assert {figures.method for figures in evaluation.figures} == {"raw", "trained"}


@pytest.mark.parametrize("frozen", [True, False])
def test_what_stays_the_same_is_computed_once(frozen: bool) -> None:
    evaluation, module, baseline = STSEvaluation(), Module(frozen), Shifted()
    given: Any = module
    evaluation.on_validation_epoch_end(trainer_of(baseline), given)
    first, calls = dict(module.logged), baseline.calls
    module.shift = 2.0  # training went on
    evaluation.on_validation_epoch_end(trainer_of(baseline), given)
    assert sorted(module.asked) == sorted(set(module.asked))
    assert baseline.calls == calls
    changed = {name.split("/")[0] for name, value in module.logged.items() if value != first[name]}
    assert changed == (set() if frozen else {"trained"})


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning")
def test_figures_of_every_method_on_each_split(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    options: dict[str, Any] = {"corpus": "builtin-sample", "max_sentences": 800, "held_out": 0.0, "store": "memory"}
    data = make_data(EmbeddingDataModule, encoder, tasks="SAMPLE", **options)
    module, evaluation, whitening = FlowModule(encoder=encoder, depth=1), STSEvaluation(), WhiteningBaseline()
    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "num_sanity_val_steps": 0, "default_root_dir": tmp_path}
    trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=[whitening, evaluation], **quiet)
    trainer.fit(module, datamodule=data)
    # One mapping for each of the loaders: fitting and held-out sentences.
    logged = {k: v for part in trainer.test(module, datamodule=data, verbose=False) for k, v in part.items()}
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
