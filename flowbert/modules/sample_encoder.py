"""How the tiny BERT of the built-in sample was made."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader

from flowbert.data.sample import sample_corpus
from flowbert.encoders.saving import write_encoder
from flowbert.errors import UserError
from flowbert.modules.mlm import MLMModule
from flowbert.seeding import Stream

SIZES: dict[str, Any] = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 2000}
MAX_LENGTH = 128
_HELD_OUT = 1000  # sentences


class _Curve(Callback):
    """Mean training loss of every ``every`` steps."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.means: list[float] = []
        self._sum = 0.0

    def on_train_batch_end(self, trainer: Trainer, _module: LightningModule, outputs: Any, *_: Any) -> None:
        self._sum += float(outputs["loss"])
        if trainer.global_step % self.every == 0:
            self.means.append(self._sum / self.every)
            self._sum = 0.0


def pretrain_sample_encoder(
    output: str | Path,
    *,
    seed: int = 0,
    steps: int = 3000,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    sentences: Sequence[str] | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Train tokenizer and tiny BERT on the sample corpus by masked language modelling, and write them to a folder.

    The weights are stored in float16, half the size; load them with ``dtype=torch.float32``. The same seed gives the
    same encoder on the same machine and library versions; elsewhere it differs by rounding.

    Args:
        output: A folder that does not exist or is empty.
        seed: Seed of weights, masks, dropout and shuffling.
        steps: Training steps.
        batch_size: Sentences a step.
        learning_rate: Largest step size.
        sentences: Text to train on; the last 1,000 sentences are held out. Default: the sample corpus.
        progress: Show a progress bar.

    Returns:
        ``start`` and ``end``: held-out ``val/mlm_loss`` (nats) and ``val/mlm_accuracy``; ``curve``: means of the
        training loss over twentieths of the run.

    Raises:
        UserError: If ``output`` holds something.
    """
    _check_new_folder(Path(output))
    text = tuple(sample_corpus() if sentences is None else sentences)
    cut = max(len(text) - _HELD_OUT, len(text) // 2)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")  # the text is in memory already
        warnings.filterwarnings("ignore", message=".*no `val_dataloader`.*")  # validated before and after
        module = MLMModule(scratch=True, learning_rate=learning_rate, seed=seed, **SIZES)
        encoder = module.make_encoder(text, max_length=MAX_LENGTH)
        module.connect(encoder)
        curve = _Curve(max(1, steps // 20))
        fitting: DataLoader[Any] = DataLoader(
            text[:cut],  # type: ignore[arg-type]  # a sequence is all that a DataLoader needs
            batch_size=batch_size,
            shuffle=True,
            drop_last=cut >= batch_size,
            collate_fn=encoder.tokenize,
            generator=Stream(seed, "order").generator(),
        )
        held_out: DataLoader[Any] = DataLoader(
            text[cut:],  # type: ignore[arg-type]
            batch_size=256,
            collate_fn=encoder.tokenize,
        )
        trainer = Trainer(
            max_steps=steps,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=progress,
            enable_model_summary=False,
            gradient_clip_val=1.0,
            callbacks=[curve],
        )
        start = trainer.validate(module, held_out, verbose=False)[0]
        trainer.fit(module, fitting)
        end = trainer.validate(module, held_out, verbose=False)[0]
    write_encoder(Path(output), encoder.backbone.half(), encoder.tokenizer)
    return {"start": dict(start), "end": dict(end), "curve": curve.means}


def _check_new_folder(folder: Path) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise UserError(f"{folder}: there is something already; allowed: a new or an empty folder")
