"""Base class of the methods that train an encoder."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as checkpointed

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.passes import to_device
from flowbert.encoders.shortcuts import find_blocks
from flowbert.errors import UserError, warn
from flowbert.methods.examples import Examples
from flowbert.methods.losses import Losses
from flowbert.methods.masking import predictor_above
from flowbert.methods.text import TextBatch, TextDataModule
from flowbert.numbers import Seed, is_count
from flowbert.options import TrainingOptions
from flowbert.seeding import Stream
from flowbert.training.base import MethodModule
from flowbert.training.callbacks import data_in_use

# Attributes of modules that are rates of dropout, where an attention holds its rate itself.
_DROPOUT_RATES = ("attention_dropout", "dropout", "dropout_prob")

TOKEN_WEIGHTS_RATE = 10
"""Learning rate of the logarithms of token weights, as a multiple of the encoder's."""


class EncoderModule(MethodModule):
    """Base of the methods that train an encoder on a :class:`flowbert.methods.TextDataModule`.

    Checkpoints contain the weights of the encoder. ``load_from_checkpoint(path, encoder=...)``
    requires an encoder with the same network, tokenizer and reading.

    Args:
        encoder: The encoder to train, with ``frozen=False``, in float32.
        seed: Seed of dropout, masks and new layers.
        **options: Fields of :class:`flowbert.options.TrainingOptions`.

    Attributes:
        name: Name of the method in tables.
        pools: Whether the loss uses pooled vectors; if not, token weights are not trained.
        predictor: A masked language model around the network of the encoder, or None.
        starts_at_random: Whether its prediction layers start at random.

    Raises:
        UserError: If an argument is outside of its limits.
        ValueError: If the encoder is frozen.
    """

    name: ClassVar[str]
    chunk_size: int | None = None
    head_name = "none"
    pools: ClassVar[bool] = True
    starts_at_random = False

    def __init__(
        self,
        encoder: SentenceEncoder,
        *,
        seed: Seed = 0,
        **options: Any,
    ) -> None:
        chosen = TrainingOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen)
        super().__init__(chosen, seed)
        if encoder.frozen:
            raise ValueError("encoder: received a frozen one; expected frozen=False")
        if chosen.dropout is not None:
            set_dropout(encoder, chosen.dropout)
        if chosen.frozen_layers:
            _freeze_lower_blocks(encoder.backbone, chosen.frozen_layers)
        if encoder.log_token_factors is not None and not self.pools:
            encoder.log_token_factors.requires_grad_(False)
        self.encoder = encoder.train()
        self.predictor: Any = None

    def add_predictor(self) -> None:
        """Set :attr:`predictor`."""
        predictor, starts_at_random = predictor_above(self.encoder, self.seed)
        self.predictor, self.starts_at_random = predictor, starts_at_random

    def on_train_start(self) -> None:
        """Warn that prediction layers start at random, unless a fit resumes."""
        super().on_train_start()
        is_trained = any(p.requires_grad for p in self.encoder.parameters())
        if self.starts_at_random and is_trained and self.global_step == 0:
            name = self.encoder.path or "encoder"
            warn(
                f"{name}: has no prediction layers; new ones start at random and disturb the "
                "encoder at first (to avoid it, train them alone first: head_only)"
            )

    def check_examples(self, examples: Examples) -> None:
        """Raise an error for examples that the method cannot train on."""

    def setup(self, stage: str) -> None:
        """Freeze parameters on which no vector and no prediction depends."""
        if stage == "fit":
            self._check_precision()  # a network in half precision has no predictions
            _freeze_unread(self.encoder, self.predictor)

    def on_fit_start(self) -> None:
        """Check the data and the precision.

        Raises:
            UserError: If the examples do not fit, or the Trainer converts the weights.
        """
        self.check_examples(self.text_data().examples)
        self._check_precision()

    def _check_precision(self) -> None:
        dtype = self.encoder.backbone.dtype
        if dtype != torch.float32:
            raise UserError(
                f"received {self.trainer.precision} and weights in {dtype}; expected weights in "
                "float32, with 32-true, bf16-mixed or 16-mixed",
                argument="precision",
            )

    def text_data(self) -> TextDataModule:
        """The Trainer's data module."""
        return data_in_use(self.trainer)  # type: ignore[no-any-return]

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Draw the dropout masks of each batch from a separate stream."""
        self.stream("dropout").seed_torch()

    def embed(self, batch: TextBatch) -> Tensor:
        """Embeddings of a batch by column, ``(G, B, D)``, with gradients."""
        chunks, size = batch["chunks"], self.chunk_size
        if size is None or not torch.is_grad_enabled():
            vectors: Tensor = self.encoder(*chunks)
            return vectors[batch["rows"]]
        # Backward computes each part again, with the dropout masks of the first time.
        # Scaling Deep Contrastive Learning Batch Size (Gao et al., 2021), arXiv 2101.06983.
        parts = []
        for chunk in chunks:
            for start in range(0, len(chunk["input_ids"]), size):
                part = {name: x[start : start + size] for name, x in chunk.items()}
                parts.append(checkpointed(self.encoder, part, use_reentrant=False))
        return torch.cat(parts)[batch["rows"]]

    @abstractmethod
    def batch_losses(self, batch: TextBatch, random: Stream) -> Losses:
        """Losses of a batch, which are logged by name; their weighted sum is minimized.

        Args:
            batch: The batch.
            random: Random numbers of the batch; in validations always the same.
        """

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        loss = self._log_losses("step", batch, self.stream("masks"))
        self.check_loss(loss)
        return loss

    def validation_step(self, batch: TextBatch, batch_idx: int) -> None:
        """Log the losses without dropout, each weighted by its size."""
        random = Stream(self.seed, "validation masks", batch=batch_idx)
        self._log_losses("test" if self.trainer.testing else "val", batch, random)

    test_step = validation_step

    def _log_losses(self, stage: str, batch: TextBatch, random: Stream) -> Tensor:
        """Log the losses and their sum, and return it."""
        losses = self.batch_losses(batch, random)
        loss: Any = sum(weight * x for weight, x, _ in losses.values())
        losses["loss"] = 1.0, loss, batch["rows"].shape[1]
        for name, (_, x, size) in losses.items():
            self.log(f"{stage}/{name}", x.detach(), batch_size=size, sync_dist=True)
        return loss  # type: ignore[no-any-return]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW and the schedule."""
        table = self.encoder.log_token_factors
        factors = None if table is None else table.weight
        trained = [p for p in self.parameters() if p.requires_grad and p is not factors]
        decay, rate = self.weight_decay, self.learning_rate
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        if factors is not None and factors.requires_grad:
            quick = {"params": [factors], "lr": TOKEN_WEIGHTS_RATE * rate}
            groups.append(quick | {"weight_decay": 0.0})
        return self.scheduled(torch.optim.AdamW(groups, lr=rate, fused=True))

    def embed_sentences(
        self, sentences: Sequence[str], start: Tensor | None = None
    ) -> Tensor:
        """Embeddings with the present weights, ``(N, D)``, float32 on the CPU.

        Args:
            sentences: N sentences.
            start: Embeddings before the training; ignored (only a flow uses them).
        """
        return torch.from_numpy(self.encoder.encode(sentences))

    def predict_step(self, batch: list[str], batch_idx: int) -> Tensor:
        """Embeddings of sentences."""
        return self.embed_sentences(batch)

    def trained_encoder(self) -> SentenceEncoder:
        """The trained encoder, to be saved."""
        return self.encoder


def with_network(
    encoder: SentenceEncoder, network: nn.Module, pooling: str
) -> SentenceEncoder:
    """A copy of an encoder with another network and pooling."""
    return encoder.read(
        backbone=encoder.backbone.like(network),
        pooling=pooling,
        sink_token=encoder.sink_token,  # otherwise the pooling would choose one
        frozen=False,
    )


def _freeze_lower_blocks(backbone: Backbone, count: int) -> None:
    """Train only the blocks above the first ``count``.

    Raises:
        UserError: If the network does not have these blocks.
    """
    lists = [*find_blocks(backbone.network).values()]
    most = backbone.num_layers - 1 if len(lists) == 1 else 0
    if not is_count(count, 1, most):
        expected = f"a whole number from 0 to {most}"
        raise UserError(argument="frozen_layers", received=count, expected=expected)
    backbone.requires_grad_(False)
    lists[0][count:].requires_grad_(True)


def dropout_rates(encoder: SentenceEncoder) -> list[float]:
    """Rates of all dropout layers of an encoder."""
    return [getattr(module, name) for module, name in _dropouts(encoder)]


def set_dropout(encoder: SentenceEncoder, rate: float) -> None:
    """Set the rate of all dropout layers of an encoder."""
    for module, name in _dropouts(encoder):
        setattr(module, name, rate)


def _dropouts(encoder: SentenceEncoder) -> Iterator[tuple[nn.Module, str]]:
    """Modules, and the names of their attributes that are dropout rates."""
    for module in encoder.backbone.modules():
        # Some networks define their own class.
        if type(module).__name__.endswith("Dropout"):
            yield module, "p"
        for name in _DROPOUT_RATES:
            if isinstance(getattr(module, name, None), float | int):
                yield module, name


def _freeze_unread(encoder: SentenceEncoder, predictor: Any) -> None:
    """Freeze parameters without a gradient, which DDP would wait for."""
    modules = [encoder] if predictor is None else [encoder, predictor]
    # A sentence need not read all experts of a block.
    trained = {
        parameter: name
        for module in modules
        for name, parameter in module.named_parameters()
        if parameter.requires_grad and "experts" not in name
    }
    if not trained:
        return
    features = to_device(encoder.tokenize(["A man sings."]), encoder.device)
    # Without dropout no random number is drawn.
    with encoder.backbone.evaluating(), torch.enable_grad():
        total = encoder(features).sum()
        if predictor is not None:
            total = total + predictor(**features).logits.sum()
    gradients = torch.autograd.grad(total, list(trained), allow_unused=True)
    for parameter, gradient in zip(trained, gradients, strict=True):
        if gradient is None:
            parameter.requires_grad_(False)
