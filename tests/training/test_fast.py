"""Fast training on a CPU: on while a module trains, off however that ends."""

from pathlib import Path
from typing import Any

import pytest
from helpers.data import make_data, trainable_encoder
from pytorch_lightning import Callback, Trainer

from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.errors import UserError
from flowbert.modules import SimCSEModule

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning"
)


class _EndBy(Callback):
    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.packed = False

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self.packed = pl_module.encoder.packs
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "raised"), [(None, None), (UserError("stop"), UserError), (KeyboardInterrupt(), SystemExit)]
)
def test_no_training_leaves_an_encoder_packed(
    error: BaseException | None, raised: type[BaseException] | None, tmp_path: Path
) -> None:
    encoder = trainable_encoder()
    module, ending = SimCSEModule(encoder), _EndBy(error)
    data = make_data(ContrastiveDataModule, encoder, corpus="builtin-sample", max_sentences=16, batch_size=8)
    trainer = Trainer(
        max_steps=1,
        accelerator="cpu",
        logger=False,
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ending],
        default_root_dir=tmp_path,
    )
    attention = encoder.backbone.config._attn_implementation  # type: ignore[union-attr]
    if raised is None:
        trainer.fit(module, datamodule=data)
    else:
        with pytest.raises(raised):
            trainer.fit(module, datamodule=data)
    assert ending.packed
    assert not encoder.packs
    assert encoder.backbone.config._attn_implementation == attention  # type: ignore[union-attr]
