"""SimCSE as a LightningModule: contrastive training of an encoder."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, check_choice, check_used
from flowbert.methods.examples import Examples
from flowbert.methods.losses import LOSSES, ContrastiveLoss
from flowbert.methods.masking import (
    predict_masked,
    prediction_loss,
    predictor_above,
    warn_of_random_layers,
)
from flowbert.methods.text import TextBatch
from flowbert.methods.trained import (
    EncoderMethod,
    TrainedModule,
    dropout_rates,
    with_network,
)
from flowbert.registry import Registry
from flowbert.seeding import Stream

HEADS = ("mlp_train_only", "mlp", "none")
_INIT_STD = 0.02  # as BERT starts its layers


def dense_tanh(dim: int, seed: int) -> nn.Sequential:
    r"""Dense layer and tanh, :math:`y = \tanh(W x + b)`, with the start of BERT's layers.

    Args:
        dim: Vector size D.
        seed: Seed of the start, :math:`W \sim N(0, 0.02^2)`, b = 0.

    Shapes:
        x, y: ``(..., D)``.  D: size of a vector.
    """
    dense = nn.Linear(dim, dim)
    generator = Stream(seed, "head").generator()
    nn.init.normal_(dense.weight, std=_INIT_STD, generator=generator)
    nn.init.zeros_(dense.bias)
    return nn.Sequential(dense, nn.Tanh())


class SimCSEModule(TrainedModule):
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
        loss: Loss on anchors, positives and hard negatives, with its options: ``infonce`` (see
            :class:`flowbert.methods.losses.InfoNCE`), ``infonce:temperature=0.1``, or the import
            path of another, as in ``mypackage.losses.MyLoss:margin=0.2``.
        head: Dense layer and tanh above the encoder: ``mlp_train_only`` (left out of embeddings),
            ``mlp`` (kept, as the encoder's pooler; it needs pooling ``cls`` of the last layer), or
            ``none``.
        mlm_weight: Weight of masked language modelling beside the contrastive loss (paper: 0.1).
        mask_fraction: Probability of a token to be predicted there; default 0.15.
        chunk_size: Sentences whose activations are in memory at once, by gradient caching, which
            takes a third more time; None for all.
        learning_rate: Peak learning rate of AdamW.
        weight_decay: Decoupled weight decay, not of biases and layer norms.
        warmup: Share of the steps in which the learning rate rises.
        **shared: Further arguments of :class:`TrainedModule`.

    Raises:
        UserError: If an argument is outside of its limits or does not fit the encoder.
    """

    name = "simcse"
    continuing = None

    def __init__(
        self,
        encoder: SentenceEncoder,
        loss: str = "infonce",
        head: str = "mlp_train_only",
        mlm_weight: float = 0.0,
        mask_fraction: float | None = None,
        chunk_size: int | None = None,
        learning_rate: float = 3e-5,
        weight_decay: float = 0.0,
        warmup: float = 0.0,
        **shared: Any,
    ) -> None:
        check_choice("head", head, HEADS)
        super().__init__(encoder, **shared)
        if not mlm_weight:
            given = {"mask_fraction": mask_fraction}
            check_used(given, (), "method simcse with mlm_weight 0")
        seed = self.hparams["seed"]
        self.loss: ContrastiveLoss = LOSSES.make(loss, argument="loss")
        self.head = None if head == "none" else dense_tanh(encoder.dim, seed)
        if head == "mlp":
            _check_pooler(encoder)
        self.predictor: Any = None
        self.starts_at_random = False
        if mlm_weight:
            self.predictor, self.starts_at_random = predictor_above(encoder, seed)

    def check_examples(self, examples: Examples) -> None:
        """Raise an error for examples without positives, or with which the training collapses."""
        if len(examples.columns) < 2:
            raise ValueError(f"examples: received {examples.name}, without positives")
        weight = getattr(self.loss, "hard_negative_weight", None) or None
        if len(examples.columns) == 2:
            where = f"{examples.name}, which has no hard negatives"
            check_used({"hard_negative_weight": weight}, (), where)
        rates = dropout_rates(self.encoder)
        if examples.needs_dropout and max(rates, default=0.0) == 0:
            raise UserError(
                "received 0, with which a sentence and its positive are equal; expected "
                "0.1, or another positive (crop, word_deletion, ...)",
                argument="dropout",
            )

    def on_train_start(self) -> None:
        """Say that prediction layers start at random, unless a fit resumes."""
        super().on_train_start()
        if self.starts_at_random and self.trainer.ckpt_path is None:
            warn_of_random_layers(self.encoder)

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        """Contrastive loss of the batches of all processes, and the weighted MLM loss."""
        loss = super().training_step(batch, batch_idx)
        if self.predictor is None:
            return loss
        masks = self.stream("masks")
        mlm_loss = prediction_loss(*predict_masked(self, batch["chunks"], masks))
        self.log("step/mlm_loss", mlm_loss.detach())
        return loss + float(self.hparams["mlm_weight"]) * mlm_loss

    def batch_loss(self, batch: TextBatch) -> Tensor:
        """Contrastive loss; in training of the batches of all processes together."""
        columns = self.embed(batch)
        columns = columns.float() if self.head is None else self.head(columns).float()
        if self.training and self.trainer.world_size > 1:
            gathered: Any = self.all_gather(columns, sync_grads=True)
            columns = gathered.transpose(0, 1).flatten(1, 2)
        loss: Tensor = self.loss(*columns)
        return loss

    @torch.no_grad()
    def embed_sentences(
        self, sentences: Sequence[str], start: Tensor | None = None
    ) -> Tensor:
        """Embeddings with the present weights, after a head that is kept."""
        embeddings = super().embed_sentences(sentences)
        if self.head is None or self.hparams["head"] != "mlp":
            return embeddings
        with torch.autocast(self.device.type, enabled=False):
            kept: Tensor = self.head(embeddings.to(self.device))
        return kept.cpu()

    def trained_encoder(self) -> SentenceEncoder:
        """The encoder to save; a head that is kept is its pooler."""
        if self.head is None or self.hparams["head"] != "mlp":
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
    kind = type(encoder.backbone.network)
    if "add_pooling_layer" not in inspect.signature(kind.__init__).parameters:
        raise UserError(
            f"received 'mlp'; expected mlp_train_only or none, as {kind.__name__} has no "
            "pooler",
            argument="head",
        )


class SimCSEMethod(EncoderMethod):
    """SimCSE of the encoder."""

    name = "simcse"
    module_class = SimCSEModule
    registries: ClassVar[Mapping[str, Registry[Any]]] = {"loss": LOSSES}
