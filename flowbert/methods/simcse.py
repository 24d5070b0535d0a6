"""SimCSE as a LightningModule: contrastive training of an encoder."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.encoder_module import (
    EncoderModule,
    dropout_rates,
    with_network,
)
from flowbert.methods.examples import Examples
from flowbert.methods.heads import (
    HEADS,
    SAMPLED_ROWS,
    AffineHead,
    dense_tanh,
    normalize_head,
)
from flowbert.methods.losses import LOSSES, ContrastiveLoss, Losses
from flowbert.methods.masking import masked_losses
from flowbert.methods.text import TextBatch
from flowbert.numbers import Seed
from flowbert.options import SimCSEOptions
from flowbert.seeding import Stream


class SimCSEModule(EncoderModule):
    r"""Train an encoder by :math:`-\log \mathrm{softmax}_j \cos(h_i, h_j^+) / \tau` at j = i.

    All sentences of a step go through the encoder as one batch; with several processes, all
    sentences of all processes are negatives. Published settings: without labels, batch 64, learning
    rate 3e-5, one epoch, ``mlp_train_only``; with NLI triples, batch 512, learning rate 5e-5, three
    epochs, ``mlp``.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021).
        https://arxiv.org/abs/2104.08821

    Args:
        encoder: The encoder to train.
        seed: Seed of dropout, masks and new layers.
        **options: Fields of :class:`flowbert.options.SimCSEOptions`.

    Raises:
        UserError: If an argument is outside of its limits or does not fit the encoder.
    """

    name = "simcse"
    continuing = None

    def __init__(
        self, encoder: SentenceEncoder, *, seed: Seed = 0, **options: Any
    ) -> None:
        chosen = SimCSEOptions(**options)
        head = normalize_head(chosen.head)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen) | {"head": head}
        super().__init__(encoder, seed=seed, **chosen.training())
        self.head_name = head
        self.head_refit_every = chosen.head_refit_every
        self.mlm_weight = chosen.mlm_weight
        self.mask_fraction = chosen.mask_fraction
        self.chunk_size = chosen.chunk_size
        self.loss: ContrastiveLoss = LOSSES.make(chosen.loss, argument="loss")
        self.head: Any = None
        self._fitted_at = 0  # optimizer steps before the last fit of the head
        if head not in HEADS:
            self.head = AffineHead(head, encoder.dim)
        elif head != "none":
            self.head = dense_tanh(encoder.dim, self.seed)
        if head == "mlp":
            _check_pooler(encoder)
        if self.mlm_weight:
            self.add_predictor()

    def check_examples(self, examples: Examples) -> None:
        """Raise an error for examples on which the training collapses."""
        rates = dropout_rates(self.encoder)
        if examples.needs_dropout and max(rates, default=0.0) == 0:
            raise UserError(
                "received 0, with which a sentence and its positive are equal; expected "
                "0.1, or another positive (crop, word_deletion, ...)",
                argument="dropout",
            )

    def on_fit_start(self) -> None:
        """Check the data, and fit a head that is a map, unless the fit is resumed."""
        super().on_fit_start()
        if isinstance(self.head, AffineHead) and self.trainer.ckpt_path is None:
            self._fit_head()

    def on_train_start(self) -> None:
        """Fit a head that is a map, also for Lightning's LearningRateFinder."""
        super().on_train_start()
        self.on_validation_start()

    def on_validation_start(self) -> None:
        """Fit a head that is a map, unless it was fitted or loaded before."""
        if isinstance(self.head, AffineHead) and not self.head.is_fitted:
            self._fit_head()

    on_test_start = on_validation_start

    def _fit_head(self) -> None:
        """Fit the map on embeddings without dropout, of the same sentences each time."""
        data = self.text_data()
        # Sentences are cut as in training.
        encoder = self.encoder.read(max_length=data.encoder.max_length)
        self.head.fit(encoder.encode(data.sample(SAMPLED_ROWS)))
        if self.trainer.world_size > 1:  # machines may round differently
            strategy = self.trainer.strategy
            self.head.load_state_dict(strategy.broadcast(self.head.state_dict()))
        self._fitted_at = self.global_step

    def on_train_batch_start(self, batch: TextBatch, batch_idx: int) -> None:
        """Fit a head that is a map again, after every ``head_refit_every`` steps."""
        every, step = self.head_refit_every, self.global_step
        # A fit that resumes while gradients accumulate fits again: the same map.
        if every is not None and step % every == 0 and step != self._fitted_at:
            self._fit_head()
        super().on_train_batch_start(batch, batch_idx)

    def batch_losses(self, batch: TextBatch, random: Stream) -> Losses:
        """Contrastive loss (in training over the batches of all processes), and MLM loss."""
        columns = self.embed(batch)
        columns = columns.float() if self.head is None else self.head(columns).float()
        if self.training and self.trainer.world_size > 1:
            gathered: Any = self.all_gather(columns, sync_grads=True)
            columns = gathered.transpose(0, 1).flatten(1, 2)
        size = batch["rows"].shape[1]
        losses: Losses = {"contrastive_loss": (1.0, self.loss(*columns), size)}
        if weight := self.mlm_weight:
            losses |= masked_losses(self, batch["chunks"], random, weight)
        return losses

    @torch.no_grad()
    def mapped(self, embeddings: Tensor) -> dict[str, Tensor]:
        """Embeddings after a head that is a map, as ``simcse+head``."""
        if not isinstance(self.head, AffineHead):
            return {}
        through = self.head(embeddings.to(self.device)).cpu()
        return {f"{self.name}+head": through}

    @torch.no_grad()
    def embed_sentences(
        self, sentences: Sequence[str], start: Tensor | None = None
    ) -> Tensor:
        """Embeddings by the present weights, after a head that is saved."""
        embeddings = super().embed_sentences(sentences)
        if self.head_name != "mlp":
            return embeddings
        with torch.autocast(self.device.type, enabled=False):
            kept: Tensor = self.head(embeddings.to(self.device))
        return kept.cpu()

    def trained_encoder(self) -> SentenceEncoder:
        """The trained encoder; a head that is saved is its pooler."""
        if self.head_name != "mlp":
            return self.encoder
        old: Any = self.encoder.backbone.network
        network = type(old)(old.config)
        dense = {
            f"pooler.dense.{name}": x for name, x in self.head[0].named_parameters()
        }
        network.load_state_dict({**old.state_dict(), **dense})
        return with_network(self.encoder, network.to(self.device), "cls_pooler")


def _check_pooler(encoder: SentenceEncoder) -> None:
    """Check that a head can become the encoder's pooler."""
    if str(encoder.pooling) != "cls" or encoder.layers != (encoder.num_layers,):
        raise UserError(
            f"received 'mlp' with pooling {encoder.pooling} and layers "
            f"{list(encoder.layers)}; expected pooling cls and layers last, as it becomes the "
            "encoder's pooler",
            argument="head",
        )
    network_class = type(encoder.backbone.network)
    options = inspect.signature(network_class.__init__).parameters
    if "add_pooling_layer" not in options:
        raise UserError(
            f"received 'mlp'; expected mlp_train_only or none, as {network_class.__name__} has no "
            "pooler",
            argument="head",
        )
