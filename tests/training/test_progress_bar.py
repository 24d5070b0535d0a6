"""Lightning's progress under ours: what a Trainer does is a step, however it ends."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.progress import Step, shown
from flowbert.training.progress_bar import TrainingProgress

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*logging interval:UserWarning",
    "ignore:.*have no `val_dataloader`:UserWarning",
)


class Line(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return self.layer(batch).square().mean()  # type: ignore[no-any-return]

    def validation_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return self.layer(batch)  # type: ignore[no-any-return]

    test_step = predict_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Watching(Callback):
    """How much is done when a training begins."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.begun: list[int] = []

    def on_train_start(self, *_: Any) -> None:
        self.begun += [step.done for step in self.steps]


class Failing(Callback):
    def on_train_batch_end(self, *args: Any) -> None:
        raise ValueError("in the middle")


def batches(count: int) -> DataLoader[Any]:
    return DataLoader(torch.ones(2 * count, 2), batch_size=2)  # type: ignore[arg-type]


def trainer_with(*callbacks: Callback, folder: Path, **options: Any) -> Trainer:
    usual: dict[str, Any] = {"accelerator": "cpu", "logger": False, "enable_model_summary": False}
    usual |= {"max_epochs": 2, "num_sanity_val_steps": 0, "enable_checkpointing": False}
    return Trainer(**usual | options, callbacks=list(callbacks), default_root_dir=str(folder))


def told(steps: list[Step]) -> list[tuple[str, int | None, int]]:
    return [(step.what, step.total, step.done) for step in steps]


def test_every_stage(steps: list[Step], tmp_path: Path) -> None:
    trainer = trainer_with(TrainingProgress(), folder=tmp_path)
    with shown():
        trainer.fit(Line(), batches(5), batches(3))
        trainer.test(Line(), batches(4), verbose=False)
        trainer.predict(Line(), batches(2))
    assert told(steps) == [
        ("Training", 10, 10),
        ("Validating", 3, 3),
        ("Validating", 3, 3),
        ("Testing", 4, 4),
        ("Predicting", 2, 2),
    ]
    assert steps[0].note.startswith("loss ")


@pytest.mark.parametrize(
    ("options", "total", "done"), [({"max_steps": 3}, 3, 3), ({"accumulate_grad_batches": 2}, 6, 6)]
)
def test_how_much_there_is(options: dict[str, Any], total: int, done: int, steps: list[Step], tmp_path: Path) -> None:
    with shown():
        trainer_with(TrainingProgress(), folder=tmp_path, **options).fit(Line(), batches(5))
    (step,) = steps
    assert (step.total, step.done) == (total, done)


def test_a_training_without_end(steps: list[Step], tmp_path: Path) -> None:
    with shown():
        trainer_with(TrainingProgress(), folder=tmp_path, max_epochs=-1, max_time={"seconds": 1}).fit(
            Line(), batches(5)
        )
    (step,) = steps
    assert step.total is None
    assert step.done > 0


def test_a_training_that_goes_on(steps: list[Step], tmp_path: Path) -> None:
    first = trainer_with(folder=tmp_path, enable_progress_bar=False, max_epochs=1)
    first.fit(Line(), batches(5))
    first.save_checkpoint(tmp_path / "last.ckpt")
    watching = Watching(steps)
    with shown():
        trainer = trainer_with(TrainingProgress(), watching, folder=tmp_path)
        trainer.fit(Line(), batches(5), ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert watching.begun == [5]
    assert told(steps) == [("Training", 10, 10)]


def test_who_says_what_is_shown(steps: list[Step], tmp_path: Path) -> None:
    for on, expected in ((None, 0), (True, 1), (False, 0)):
        steps.clear()
        trainer_with(TrainingProgress(on), folder=tmp_path).fit(Line(), batches(2))
        assert len(steps) == expected
    steps.clear()
    with shown(False):
        trainer_with(TrainingProgress(True), folder=tmp_path).fit(Line(), batches(2))
    assert steps == []
    bar = TrainingProgress()
    with shown():
        bar.disable()
        trainer_with(bar, folder=tmp_path).fit(Line(), batches(2))
        assert steps == []
        bar.enable()
        trainer_with(bar, folder=tmp_path).fit(Line(), batches(2))
    assert len(steps) == 1


def test_an_error_closes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flowbert import progress

    open_: list[Step] = []
    monkeypatch.setattr(progress._display, "open", open_.append)
    monkeypatch.setattr(progress._display, "close", open_.remove)
    monkeypatch.setattr(progress._display, "stop", lambda _: None)
    with shown(), pytest.raises(ValueError, match="in the middle"):
        trainer_with(TrainingProgress(), Failing(), folder=tmp_path).fit(Line(), batches(2))
    assert open_ == []
