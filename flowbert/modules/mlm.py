"""Masked language modelling as a LightningModule: continue pretraining an encoder, or start one from scratch."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from flowbert.errors import UserError
from flowbert.modules.schedules import warmup_then

IGNORED = -100  # label of a position that takes no part in the loss: torch's cross-entropy leaves it out
_MASKED, _RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stays as it is
_STREAMS = {"train": 0, "val": 1}


def mask_tokens(
    input_ids: Tensor,
    maskable: Tensor,
    *,
    mask_id: int,
    vocab_size: int,
    fraction: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose tokens to predict: 80% of them become ``[MASK]``, 10% a random token, 10% stay as they are.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018).
        https://arxiv.org/abs/1810.04805

    Args:
        input_ids: Token ids of shape ``(B, T)``.
        maskable: Which tokens may be chosen (not special, not padding), bool of shape ``(B, T)``.
        mask_id: Id of ``[MASK]``.
        vocab_size: Ids of random tokens are drawn below this.
        fraction: Chance of each maskable token to be chosen.
        generator: Source of randomness, on the CPU whatever the device of the ids, so that every device masks alike.

    Returns:
        Inputs and labels of shape ``(B, T)``; the label is the old id where a token was chosen, else ``IGNORED``.

    Example:
        >>> ids = torch.arange(8).reshape(2, 4)
        >>> generator = torch.Generator().manual_seed(0)
        >>> _, labels = mask_tokens(ids, ids > 3, mask_id=1, vocab_size=8, fraction=1.0, generator=generator)
        >>> labels.tolist()
        [[-100, -100, -100, -100], [4, 5, 6, 7]]
    """
    chosen = (torch.rand(input_ids.shape, generator=generator) < fraction).to(input_ids.device) & maskable
    fate = torch.rand(input_ids.shape, generator=generator).to(input_ids.device)
    random_ids = torch.randint(vocab_size, input_ids.shape, generator=generator).to(input_ids.device)
    inputs = torch.where(chosen & (fate < _MASKED), mask_id, input_ids)
    inputs = torch.where(chosen & (fate >= _MASKED) & (fate < _MASKED + _RANDOM), random_ids, inputs)
    return inputs, torch.where(chosen, input_ids, IGNORED)


class MLMModule(LightningModule):
    """Masked language modelling on batches of token features, masked anew at every step.

    The masks of a step depend on the seed, the step and the rank alone, so that a resumed run masks as an
    uninterrupted one. Validation batches are always masked in the same way.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018).
        https://arxiv.org/abs/1810.04805

    Args:
        path: Encoder to continue from: a folder or hub name. With ``scratch`` only its tokenizer is used.
        scratch: Sizes of a new BERT with random weights (``hidden_size``, ``num_hidden_layers``, ...: arguments of
            ``transformers.BertConfig``); default: none, the weights at ``path``.
        revision: Commit, tag or branch of a hub name.
        mask_fraction: Chance of a token to be predicted, in (0, 1).
        max_length: Longest sequence in tokens, special ones included.
        learning_rate: Largest step size of AdamW.
        weight_decay: Decoupled weight decay; biases and layer norms are spared.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        schedule: ``linear``, ``cosine`` or ``constant`` after the warm-up.
        seed: Seed of the new weights and of the masks.

    Shapes:
        Features of a batch: ``input_ids`` and ``attention_mask`` of shape ``(B, T)``.  B: batch, T: tokens.

    Raises:
        UserError: If an option is outside what is allowed or the tokenizer has no ``[MASK]``.
    """

    def __init__(
        self,
        path: str,
        scratch: dict[str, int] | None = None,
        revision: str | None = None,
        mask_fraction: float = 0.15,
        max_length: int = 128,
        learning_rate: float = 1e-4,
        weight_decay: float = 0.01,
        warmup: float = 0.06,
        schedule: str = "linear",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 0 < mask_fraction < 1:
            raise UserError(f"model.mask_fraction: received {mask_fraction}; allowed: above 0 and below 1")
        if learning_rate <= 0:
            raise UserError(f"model.learning_rate: received {learning_rate}; allowed: above 0")
        warmup_then(schedule, warmup, total=1)  # raises now rather than after the data are loaded
        self.save_hyperparameters()
        self.tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
        if self.tokenizer.mask_token_id is None:
            raise UserError(f"model.path: the tokenizer of {path} has no mask token; allowed: one trained with masks")
        self.model = self._new_model(scratch, seed) if scratch is not None else self._old_model(path, revision)

    def _new_model(self, sizes: dict[str, int], seed: int) -> BertForMaskedLM:
        fixed = {"vocab_size": len(self.tokenizer), "pad_token_id": self.tokenizer.pad_token_id}
        config = BertConfig.from_dict({**sizes, **fixed})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return BertForMaskedLM(config)

    def _old_model(self, path: str, revision: str | None) -> Any:
        return AutoModelForMaskedLM.from_pretrained(path, revision=revision, dtype=torch.float32)

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Padded token features of sentences; use it as ``collate_fn``."""
        length = self.hparams["max_length"]
        return dict(
            self.tokenizer(list(sentences), padding=True, truncation=True, max_length=length, return_tensors="pt")
        )

    def masked(self, features: dict[str, Tensor], stream: str, step: int) -> tuple[dict[str, Tensor], Tensor]:
        """Masked features and their labels for one step of ``train`` or one batch of ``val``."""
        ids = features["input_ids"]
        special = torch.tensor(self.tokenizer.all_special_ids, device=ids.device)
        rank = self.global_rank if stream == "train" else 0
        entropy = (self.hparams["seed"], _STREAMS[stream], step, rank)
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        inputs, labels = mask_tokens(
            ids,
            features["attention_mask"].bool() & ~torch.isin(ids, special),
            mask_id=self.tokenizer.mask_token_id,
            vocab_size=len(self.tokenizer),
            fraction=self.hparams["mask_fraction"],
            generator=generator,
        )
        return {**features, "input_ids": inputs}, labels

    def loss(self, features: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """Mean cross-entropy in nats over the chosen tokens, share of them predicted rightly, and their number.

        A batch in which no token was chosen has loss 0, which keeps the graph alive under several processes.
        """
        logits = self.model(**features).logits
        chosen = labels != IGNORED
        count = int(chosen.sum())
        total = functional.cross_entropy(logits[chosen].float(), labels[chosen], reduction="sum")
        right = (logits[chosen].argmax(-1) == labels[chosen]).sum()
        return total / max(count, 1), right / max(count, 1), count

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        """Loss of a batch under the masks of this step."""
        step = self.current_epoch * int(self.trainer.num_training_batches) + batch_idx
        loss, accuracy, _ = self.loss(*self.masked(batch, "train", step))
        self.log_dict({"train/mlm_loss": loss, "train/mlm_accuracy": accuracy})
        return loss

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        """Loss and accuracy of a batch under its fixed masks."""
        loss, accuracy, count = self.loss(*self.masked(batch, "val", batch_idx))
        values = {"val/mlm_loss": loss, "val/mlm_accuracy": accuracy}
        self.log_dict(values, batch_size=max(count, 1), on_epoch=True, sync_dist=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW with a linear warm-up and then the chosen schedule, stepwise."""
        h = self.hparams
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": h["weight_decay"]},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=h["learning_rate"])
        factor = warmup_then(h["schedule"], h["warmup"], int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def save_encoder(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write the encoder without its prediction head, and the tokenizer, as a folder that transformers loads.

        Args:
            folder: A folder that does not exist or is empty; it appears complete or not at all.
            dtype: Precision of the stored weights.

        Raises:
            UserError: If the folder holds something.
        """
        folder = Path(folder)
        check_new_folder(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        parts = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            self._bare_encoder().to(dtype).save_pretrained(parts)
            backend = getattr(self.tokenizer, "backend_tokenizer", None)
            if backend is not None:  # what a call set would be saved as everybody's default
                backend.no_padding()
                backend.no_truncation()
            self.tokenizer.save_pretrained(parts)
            for path in (parts, *parts.iterdir()):
                path.chmod(0o755 if path.is_dir() else 0o644)
            os.replace(parts, folder)
        finally:
            shutil.rmtree(parts, ignore_errors=True)

    def _bare_encoder(self) -> Any:
        backbone = self.model.base_model
        bare = type(backbone)(backbone.config, add_pooling_layer=False)
        bare.load_state_dict(backbone.state_dict())
        return bare


def check_new_folder(folder: Path) -> None:
    """Raise a UserError unless the folder is empty or not there."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise UserError(f"{folder}: there is something already; allowed: a new or an empty folder")
