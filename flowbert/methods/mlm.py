"""Masked language modelling as a LightningModule: further pretraining of an encoder."""

from typing import Any

import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.encoder_module import EncoderModule, with_network
from flowbert.methods.losses import Losses
from flowbert.methods.masking import masked_losses
from flowbert.methods.text import TextBatch
from flowbert.numbers import Seed
from flowbert.options import MLMOptions
from flowbert.seeding import Stream
from flowbert.tasks.measures import mean_pair_cosine

_CONTINUES = "##"  # WordPiece's mark of a piece that is not the first of its word


class MLMModule(EncoderModule):
    r"""Train an encoder by :math:`-\log p(\text{token})` of masked tokens.

    Masks depend only on the seed, the batch and the rank, so that a resumed run has the same masks;
    validations always have the same. The prediction layers come from the folder of the encoder, or
    start at random, with a warning; they are saved with the encoder.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding
        (Devlin et al., 2018). https://arxiv.org/abs/1810.04805

        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019). https://arxiv.org/abs/1907.12009

    Args:
        encoder: The encoder to train.
        seed: Seed of dropout, masks and new layers.
        **options: Fields of :class:`flowbert.options.MLMOptions`.

    Raises:
        UserError: If an argument is outside of its limits or does not fit the encoder.
    """

    name = "mlm"
    pools = False
    continuing: Tensor | None

    def __init__(
        self, encoder: SentenceEncoder, *, seed: Seed = 0, **options: Any
    ) -> None:
        chosen = MLMOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen)
        super().__init__(encoder, seed=seed, **chosen.training())
        self.mask_fraction = chosen.mask_fraction
        self.cosreg_weight = chosen.cosreg_weight
        if str(encoder.pooling) == "cls_pooler":
            raise UserError(
                "received cls_pooler, a layer that is not trained; expected another one",
                argument="pooling",
            )
        self.add_predictor()
        if chosen.head_only:
            encoder.requires_grad_(False)
        ids = _continuing_ids(encoder) if chosen.whole_words else None
        self.register_buffer("continuing", ids, persistent=False)

    def batch_losses(self, batch: TextBatch, random: Stream) -> Losses:
        """Loss of masked tokens, and mean cosine of word embeddings."""
        losses = masked_losses(self, batch["chunks"], random, 1.0)
        if weight := self.cosreg_weight:
            words = self.predictor.get_input_embeddings()
            cosine = word_cosine(words.weight)
            losses["word_cosine"] = weight, cosine, 1
        return losses

    def trained_encoder(self) -> SentenceEncoder:
        """The trained encoder with its prediction layers, to be saved."""
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


def word_cosine(vectors: Tensor) -> Tensor:
    r"""Mean cosine of all pairs of word embeddings ``(N, D)``, shape ``()``; zeros are left out.

    The paper adds it with a weight :math:`\gamma` to the loss of a language model, over the word
    embeddings that are also its output layer, and divides by :math:`N^2`. The computation is in
    float32, also under autocast.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019). https://arxiv.org/abs/1907.12009

    Example:
        >>> word_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
        tensor(0.3333)
    """
    with torch.autocast(vectors.device.type, enabled=False):
        rows = vectors.float()
        norms = torch.linalg.vector_norm(rows, dim=1)
        # The inverse of infinity: a row of zeros adds nothing and gets no gradient by way of 1 / 0.
        total = norms.masked_fill(norms == 0, torch.inf).reciprocal() @ rows
        return mean_pair_cosine(total, norms.count_nonzero())
