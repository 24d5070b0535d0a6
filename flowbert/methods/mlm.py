"""Masked language modelling as a LightningModule: an encoder is pretrained further."""

from typing import Any

import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.losses import mean_pair_cosine
from flowbert.methods.masking import (
    MASK_FRACTION,
    predict_masked,
    prediction_loss,
)
from flowbert.methods.text import TextBatch
from flowbert.methods.trained import TrainedModule, with_network
from flowbert.seeding import Stream

_CONTINUES = "##"  # WordPiece's mark of a piece that is not the first of its word


class MLMModule(TrainedModule):
    r"""Train an encoder by :math:`-\log p(\text{token})` of masked tokens.

    Masks depend on the seed, the batch and the rank alone, so that a resumed run masks as an
    uninterrupted one; those of the validation are always the same. The prediction layers are those
    of the encoder's folder, or start at random, with a warning, and are saved with the encoder.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding
        (Devlin et al., 2018). https://arxiv.org/abs/1810.04805

        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019). https://arxiv.org/abs/1907.12009

    Args:
        encoder: The encoder to train.
        mask_fraction: Probability of a token to be predicted.
        whole_words: Mask whole words instead of single tokens.
        cosreg_weight: Weight of the mean cosine over all pairs of word embeddings, the paper's
            gamma (there 1).
        head_only: Train only the prediction layers, on the frozen network. A further run can
            start from the saved encoder.
        learning_rate: Peak learning rate of AdamW.
        warmup: Share of the steps over which the learning rate rises.
        **shared: Further arguments of :class:`TrainedModule`.

    Raises:
        UserError: If an argument is outside of its limits or does not fit the encoder.
    """

    name = "mlm"
    pools = False
    continuing: Tensor | None

    def __init__(
        self,
        encoder: SentenceEncoder,
        mask_fraction: float = MASK_FRACTION,
        whole_words: bool = False,
        cosreg_weight: float = 0.0,
        head_only: bool = False,
        learning_rate: float = 1e-4,
        warmup: float = 0.06,
        **shared: Any,
    ) -> None:
        super().__init__(encoder, **shared)
        if str(encoder.pooling) == "cls_pooler":
            raise UserError(
                "received cls_pooler, a layer that is not trained; expected another one",
                argument="pooling",
            )
        self.add_predictor()
        output = self.predictor.get_output_embeddings()
        if cosreg_weight and output.weight is not self._word_embeddings():
            raise UserError(
                argument="cosreg_weight",
                received=cosreg_weight,
                expected=(
                    f"0 for {encoder.path}, whose "
                    "word embeddings are not its output layer"
                ),
            )
        if head_only:
            encoder.requires_grad_(False)
        ids = _continuing_ids(encoder) if whole_words else None
        self.register_buffer("continuing", ids, persistent=False)

    def _word_embeddings(self) -> Tensor:
        weight: Tensor = self.predictor.get_input_embeddings().weight
        return weight

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        """Loss of a batch under masks of its own."""
        loss, accuracy, _ = self._predict(batch, self.stream("masks"))
        self.log_dict({"step/mlm_loss": loss.detach(), "step/mlm_accuracy": accuracy})
        weight = self.hparams["cosreg_weight"]
        if weight:
            cosine = mean_pair_cosine(self._word_embeddings())
            self.log("step/word_cosine", cosine.detach())
            loss = loss + weight * cosine
        self.check_loss(loss)
        return loss

    def validation_step(self, batch: TextBatch, batch_idx: int) -> None:
        """Log loss and accuracy under fixed masks, weighted by the number of chosen tokens."""
        masks = Stream(self.hparams["seed"], "validation masks", batch=batch_idx)
        loss, accuracy, count = self._predict(batch, masks)
        metrics = {"val/mlm_loss": loss, "val/mlm_accuracy": accuracy}
        self.log_dict(metrics, on_epoch=True, batch_size=count, sync_dist=True)

    test_step = validation_step

    def _predict(self, batch: TextBatch, stream: Stream) -> tuple[Tensor, Tensor, int]:
        """Loss, share of the chosen tokens that are predicted rightly, and their number."""
        logits, ids = predict_masked(self, batch["chunks"], stream)
        count = max(len(ids), 1)
        accuracy = (logits.argmax(-1) == ids).sum() / count
        return prediction_loss(logits, ids), accuracy, count

    def trained_encoder(self) -> SentenceEncoder:
        """The encoder with its prediction layers, so that it can be trained further."""
        return with_network(self.encoder, self.predictor, str(self.encoder.pooling))


def _continuing_ids(encoder: SentenceEncoder) -> Tensor:
    """Ids of pieces that are not the first of their word."""
    vocabulary = encoder.backbone.tokenizer.get_vocab()
    ids = [
        number for token, number in vocabulary.items() if token.startswith(_CONTINUES)
    ]
    if not ids:
        raise UserError(
            f"received true; expected false for {encoder.path}, whose tokenizer has "
            f"no pieces marked {_CONTINUES!r}",
            argument="whole_words",
        )
    return torch.tensor(sorted(ids))
