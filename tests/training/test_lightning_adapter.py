"""What is used of Lightning without a public name is still there."""

from pytorch_lightning import Trainer

from flowbert.training.lightning_adapter import batches_processed, count_logged_steps


def test_lightning_still_has_what_is_used_here() -> None:
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    assert hasattr(trainer.fit_loop.epoch_loop, "_batches_that_stepped"), "Lightning counts logged steps elsewhere now"
    count_logged_steps(trainer)
    assert batches_processed(trainer) == 0
