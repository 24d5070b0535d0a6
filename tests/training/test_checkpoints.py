"""When last.ckpt is written, what is in it, and what is left alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.data import make_data
from pytorch_lightning import Callback, Trainer

from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.metrics_file import digest_rows, read_metrics
from flowbert.modules import FlowModule
from flowbert.training.checkpoints import AtomicCheckpointIO, BestCheckpoint, LastCheckpoint
from flowbert.training.metrics_log import MetricsLog
from flowbert.training.optim import BertAdam

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning"
)


class _Watch(AtomicCheckpointIO):
    """Remembers the optimizer steps of every checkpoint written."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        self.steps.append(checkpoint["global_step"])
        super().save_checkpoint(checkpoint, path, storage_options)


def _fit(folder: Path, last: LastCheckpoint, *callbacks: Callback, **options: Any) -> tuple[Trainer, list[int]]:
    encoder, watch = SentenceEncoder.from_pretrained("builtin-sample"), _Watch()
    module = FlowModule(encoder=encoder, depth=1, schedule="constant")
    data = make_data(
        EmbeddingDataModule, corpus="builtin-sample", max_sentences=192, batch_size=24, held_out=0.0, store="memory"
    )
    last.dirpath = folder
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0, "max_epochs": 2}
    trainer = Trainer(
        accelerator="cpu",
        logger=MetricsLog(folder),
        callbacks=[*callbacks, last],
        plugins=[watch],
        **{**quiet, **options},
    )
    trainer.fit(module, datamodule=data)
    return trainer, watch.steps


def test_by_steps_and_at_the_end_of_epochs(tmp_path: Path) -> None:
    assert _fit(tmp_path / "a", LastCheckpoint(every_n_steps=3, every_n_minutes=None))[1] == [3, 6, 8, 11, 14, 16]
    assert _fit(tmp_path / "b", LastCheckpoint(every_n_minutes=None))[1] == [8, 16]
    assert _fit(tmp_path / "c", LastCheckpoint())[1] == [8, 16]


def test_by_time(tmp_path: Path) -> None:
    assert _fit(tmp_path, LastCheckpoint(every_n_minutes=1e-9))[1] == list(range(1, 17))


def test_never_while_gradients_accumulate(tmp_path: Path) -> None:
    steps = _fit(tmp_path, LastCheckpoint(every_n_minutes=1e-9), accumulate_grad_batches=3)[1]
    assert steps == [1, 2, 3, 4, 5, 6]  # 8 batches: after the third, the sixth and the last


def test_between_batches_the_one_at_hand_does_not_count(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
            trainer.should_stop = trainer.global_step == 5

    _fit(tmp_path, LastCheckpoint(every_n_steps=4, every_n_minutes=None), Stop(), limit_train_batches=5, max_epochs=1)
    content = torch.load(tmp_path / "last.ckpt", weights_only=True)
    position = content["EmbeddingDataModule"]
    assert (position["epoch"], position["batch"]) == (1, 0)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert content["metrics"] == {"rows": len(rows), "digest": digest_rows(rows)}


class _Interrupt(Callback):
    """Ctrl-C at a hook of some batch."""

    def __init__(self, hook: str, batch: int) -> None:
        setattr(self, hook, self._stop)
        self._batch = batch

    def _stop(self, trainer: Trainer, *_: Any) -> None:
        if trainer.fit_loop.epoch_loop.batch_idx == self._batch:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("hook", "batch", "steps"),
    [
        ("on_train_batch_start", 5, [5]),
        ("on_before_backward", 5, [5]),
        ("on_after_backward", 5, [5]),
        ("on_before_optimizer_step", 5, [5]),
        ("on_train_batch_end", 5, []),  # it has, and the step is not logged yet
        ("on_validation_start", 3, []),
    ],
)
def test_an_interruption_is_kept_where_the_batch_has_changed_nothing(
    hook: str, batch: int, steps: list[int], tmp_path: Path
) -> None:
    last = LastCheckpoint(every_n_minutes=None)
    with pytest.raises(SystemExit):
        _fit(tmp_path, last, _Interrupt(hook, batch), val_check_interval=4)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True) if (tmp_path / "last.ckpt").exists() else None
    assert ([] if saved is None else [saved["global_step"]]) == steps
    if saved is not None:
        progress = saved["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]
        assert set(progress.values()) == {5}
        assert saved["EmbeddingDataModule"]["batch"] == 5


def test_an_interruption_within_the_optimizer_step_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, calls = BertAdam._update, []

    def interrupted(optimizer: BertAdam, *arguments: Any) -> None:
        calls.append(0)
        if len(calls) == 6:
            raise KeyboardInterrupt
        update(optimizer, *arguments)

    monkeypatch.setattr(BertAdam, "_update", interrupted)
    with pytest.raises(SystemExit):
        _fit(tmp_path, LastCheckpoint(every_n_steps=3, every_n_minutes=None))
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 3


def test_a_training_that_diverged_is_not_kept(tmp_path: Path) -> None:
    class Diverge(Callback):
        def on_train_batch_start(self, trainer: Trainer, module: Any, *_: Any) -> None:
            if trainer.global_step == 5:
                with torch.no_grad():
                    next(module.parameters()).fill_(torch.nan)

    with pytest.raises(UserError, match="not finite"):
        _fit(tmp_path, LastCheckpoint(every_n_minutes=None), Diverge())
    assert not (tmp_path / "last.ckpt").exists()


@pytest.mark.parametrize("options", [{"every_n_steps": 0}, {"every_n_minutes": -1.0}])
def test_numbers_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"every_n_\w+: received -?\d.*; allowed: above 0, or null"):
        LastCheckpoint(**options)


def test_files_appear_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AtomicCheckpointIO().save_checkpoint({"a": torch.ones(3)}, tmp_path / "x.ckpt")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space"):
        AtomicCheckpointIO().save_checkpoint({"a": torch.zeros(3)}, tmp_path / "x.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["x.ckpt"]
    assert torch.load(tmp_path / "x.ckpt", weights_only=True)["a"].tolist() == [1, 1, 1]


def test_the_best_so_far_is_taken_over_from_another_folder(tmp_path: Path) -> None:
    best = tmp_path / "old" / "best.ckpt"
    best.parent.mkdir()
    best.write_bytes(b"")
    state = BestCheckpoint(tmp_path / "old", "dev").state_dict()
    state |= {"best_model_path": str(best), "best_model_score": torch.tensor(0.7)}
    here = BestCheckpoint(tmp_path / "new", "dev")
    here.load_state_dict(state)
    assert (here.best_model_path, here.best_model_score) == (str(best), torch.tensor(0.7))
    best.unlink()
    fresh = BestCheckpoint(tmp_path / "new", "dev")
    with pytest.warns(FlowbertWarning, match="is not there any more"):
        fresh.load_state_dict(state)
    assert fresh.best_model_path == ""


@pytest.mark.parametrize("steps", [3, 8, 11])
def test_a_run_that_had_fewer_steps_goes_on(steps: int, tmp_path: Path) -> None:
    whole, _ = _fit(tmp_path / "whole", LastCheckpoint(every_n_minutes=None))
    _fit(tmp_path / "short", LastCheckpoint(every_n_minutes=None), max_steps=steps)
    checkpoint = tmp_path / "short" / "last.ckpt"
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["global_step"] == steps
    data = make_data(
        EmbeddingDataModule, corpus="builtin-sample", max_sentences=192, batch_size=24, held_out=0.0, store="memory"
    )
    module = FlowModule.load_from_checkpoint(checkpoint, weights_only=True)
    trainer = Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False, enable_model_summary=False
    )
    trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    assert trainer.global_step == 16
    for name, value in whole.lightning_module.state_dict().items():
        assert torch.equal(module.state_dict()[name], value), name


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch_size": 16}, r"from batch 5 of epoch 0, whose order was another \(batch 24 there, 16 here\)"),
        ({"seed": 1}, r"fitted on 192 of builtin-sample, this run on 192 of builtin-sample; allowed: the same"),
        ({"max_sentences": 180}, r"fitted on 192 of builtin-sample, this run on 180 of builtin-sample"),
        ({"held_out": 0.1}, r"fitted on 192 of builtin-sample, this run on 173 of builtin-sample"),
        ({}, None),
    ],
)
def test_within_an_epoch_the_batches_must_be_those_of_the_run(
    changed: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"max_sentences": 192, "batch_size": 24, "held_out": 0.0, "store": "memory"}
    with pytest.raises(SystemExit):
        _fit(tmp_path, LastCheckpoint(every_n_minutes=None), _Interrupt("on_train_batch_start", 5))
    data = make_data(EmbeddingDataModule, corpus="builtin-sample", **{**options, **changed})
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_model_summary=False
    )
    module = FlowModule.load_from_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    if message is None:
        trainer.fit(module, datamodule=data, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
        assert trainer.global_step == 8
        return
    with pytest.raises(UserError, match=message):
        trainer.fit(module, datamodule=data, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
