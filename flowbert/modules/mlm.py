"""Masked language modelling as a LightningModule: continue pretraining an encoder, or start one from scratch."""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics import MeanMetric
from transformers import AutoTokenizer, BertConfig

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.saving import tokenizer_files, tokenizer_of
from flowbert.encoders.token_counts import counts_from
from flowbert.encoders.wordpiece import train_wordpiece
from flowbert.errors import UserError
from flowbert.losses.cosreg import mean_pair_cosine
from flowbert.modules.masking import mask_features, new_predictor, predict_chosen, predictor_above
from flowbert.modules.trainable import TrainableEncoderModule
from flowbert.seeding import Stream

SCRATCH_PATH = "scratch"  # what a new encoder is called in tables and messages
_MAX_LENGTH, _LEAST_LENGTH = 128, 3  # of a new encoder: [CLS], a token, [SEP]
_CONTINUES = "##"  # WordPiece's mark of a piece that goes on with the word of the piece before it


class MLMModule(TrainableEncoderModule):
    r"""Masked language modelling on batches of token features, masked anew at every step.

    The loss is :math:`-\log p(\text{token})` of the chosen tokens, with ``cosreg_weight`` plus that weight times the
    mean cosine over all pairs of word embeddings. The masks of a step depend on the seed, the step and the rank alone,
    so that a resumed run masks as an uninterrupted one. Validation batches are always masked in the same way.

    The prediction layers are those of the checkpoint; where it has none they start at random, with the word embeddings
    tied, so the first losses are large. They are saved with the encoder, which loads with or without them.

    With ``scratch`` there is no encoder to continue from: a trainer's data module gives the text for a WordPiece
    vocabulary, and the network is a BERT of the given sizes with random weights, see :meth:`make_encoder`.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018).
        https://arxiv.org/abs/1810.04805

        Representation Degeneration Problem in Training Natural Language Generation Models (Gao et al., 2019).
        https://arxiv.org/abs/1907.12009

    Args:
        encoder: The encoder to train, not frozen; default: a new one, or that of the checkpoint that is loaded next.
        mask_fraction: Chance of a token to be predicted, in (0, 1).
        whole_words: Choose words, all WordPieces of each, rather than single tokens.
        cosreg_weight: Weight :math:`\gamma` of the cosine regularization of the word embeddings (paper: 1); 0: none.
        scratch: Start from random weights and a new vocabulary, without any encoder.
        hidden_size: Embedding size D of a new encoder.
        num_hidden_layers: Its layers.
        num_attention_heads: Its attention heads; they divide D.
        intermediate_size: Width of its feed-forward layers; default: 4 D.
        vocab_size: Largest vocabulary of a new encoder; a small corpus gives a smaller one.
        learning_rate: Largest step size of AdamW.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        **shared: Further arguments of :class:`TrainableEncoderModule`; the seed is that of the new weights and masks.

    Shapes:
        Features of a batch: ``input_ids`` and ``attention_mask`` of shape ``(B, T)``.  B: batch, T: tokens.

    Raises:
        UserError: If an option is outside what is allowed.

    Example:
        >>> module = MLMModule(SentenceEncoder.from_pretrained("builtin-sample", frozen=False), mask_fraction=0.2)
        >>> features = module.encoder.tokenize(["a dog runs", "a cat"])
        >>> masked, labels = module.masked(features, Stream(0, "validation masks"))
        >>> labels.shape == features["input_ids"].shape
        True
    """

    name = "mlm"
    continuing_ids: Tensor | None

    def __init__(
        self,
        encoder: SentenceEncoder | None = None,
        mask_fraction: float = 0.15,
        whole_words: bool = False,
        cosreg_weight: float = 0.0,
        scratch: bool = False,
        hidden_size: int = 128,
        num_hidden_layers: int = 4,
        num_attention_heads: int = 4,
        intermediate_size: int | None = None,
        vocab_size: int = 2000,
        learning_rate: float = 1e-4,
        warmup: float = 0.06,
        **shared: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, warmup=warmup, **shared)
        if hidden_size % num_attention_heads:
            raise UserError(
                f"num_attention_heads: received {num_attention_heads}; allowed: what divides hidden_size {hidden_size}"
            )
        self.predictor: Any = None
        self.held_out_loss, self.held_out_accuracy = MeanMetric(), MeanMetric()
        self.register_buffer("continuing_ids", None, persistent=False)
        if encoder is not None:
            self._use_encoder(encoder)

    # --------------------------------------------------------------- encoder

    def configure_model(self) -> None:
        """With ``scratch``, make the encoder from the data module's fitting sentences where there is none yet."""
        datamodule = self._datamodule()
        if self.hparams["scratch"] and datamodule is not None and not self.has_encoder:
            self._use_encoder(self.make_encoder(datamodule.corpus_sentences()))

    def make_encoder(
        self,
        sentences: Sequence[str],
        *,
        layers: str | int | Sequence[int] | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
    ) -> SentenceEncoder:
        """A new encoder of this module's sizes, for ``_use_encoder``.

        Args:
            sentences: Text to train the vocabulary on.
            layers: As in :class:`flowbert.encoders.SentenceEncoder`; default: the last.
            pooling: As there; default: mean.
            max_length: Longest sequence in tokens, special ones included; the encoder has no positions beyond. Default:
                128.

        Raises:
            UserError: If ``vocab_size`` is too small for the characters of the text, or the rest does not fit.
        """
        length = _MAX_LENGTH if max_length is None else max_length
        if length < _LEAST_LENGTH:
            raise UserError(f"max_length: received {length}; allowed: {_LEAST_LENGTH} or more")
        with tempfile.TemporaryDirectory() as folder:
            train_wordpiece(sentences, self.hparams["vocab_size"], length, folder)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        return self._new_encoder(tokenizer, "last" if layers is None else layers, pooling or "mean", length)

    def _new_encoder(
        self, tokenizer: Any, layers: str | int | Sequence[int], pooling: str, max_length: int
    ) -> SentenceEncoder:
        h = self.hparams
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=h["hidden_size"],
            num_hidden_layers=h["num_hidden_layers"],
            num_attention_heads=h["num_attention_heads"],
            intermediate_size=h["intermediate_size"] or 4 * h["hidden_size"],
            max_position_embeddings=max_length,
            pad_token_id=tokenizer.pad_token_id,
        )
        return SentenceEncoder(
            new_predictor(config, h["seed"]).base_model,
            tokenizer,
            layers=layers,
            pooling=pooling,
            max_length=max_length,
            path=SCRATCH_PATH,
            frozen=False,
        )

    def _use_encoder(self, encoder: SentenceEncoder) -> None:
        """Train an encoder, with the prediction layers above it.

        Raises:
            UserError: If the encoder is in half precision, or cannot predict masked tokens.
        """
        if encoder.pooling == "cls_pooler":
            raise UserError(
                "pooling: 'cls_pooler' reads a layer that masked language modelling does not train; allowed: mean, "
                "cls, max"
            )
        if encoder.tokenizer.mask_token_id is None:
            raise UserError(f"path: the tokenizer of {encoder.path} has no mask token; allowed: one trained with masks")
        super()._use_encoder(encoder)
        self.predictor = predictor_above(encoder, self.hparams["seed"])
        if self.hparams["cosreg_weight"] and not self._is_tied():
            raise UserError(
                f"cosreg_weight: received {self.hparams['cosreg_weight']}, but the word embeddings of "
                f"{encoder.path} are not tied to its prediction layers; allowed with it: 0"
            )
        if self.hparams["whole_words"]:
            self.continuing_ids = _continuing_ids(encoder)

    def _is_tied(self) -> bool:
        output = self.predictor.get_output_embeddings()
        return output is not None and output.weight is self.predictor.get_input_embeddings().weight

    # ----------------------------------------------------------- checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Record what the weights belong to; of a new encoder the tokenizer, too, which is nowhere else."""
        super().on_save_checkpoint(checkpoint)
        if self.hparams["scratch"]:
            checkpoint["tokenizer"] = tokenizer_files(self.encoder.tokenizer)

    def load_encoder(self, saved: Mapping[str, Any]) -> SentenceEncoder:
        """The encoder that a checkpoint names; a new one is built again, its vocabulary is in the checkpoint."""
        if not self.hparams["scratch"]:
            return super().load_encoder(saved)
        used = {name: saved["encoder"][name] for name in ("layers", "pooling", "max_length")}
        encoder, counts = self._new_encoder(tokenizer_of(saved["tokenizer"]), **used), counts_from(saved)
        if counts is not None:
            encoder.use_counts(counts)
        return encoder

    # -------------------------------------------------------------- training

    def masked(self, features: dict[str, Tensor], stream: Stream) -> tuple[dict[str, Tensor], Tensor]:
        """Masked features and their labels for a batch, masks drawn from a stream."""
        continues = None if self.continuing_ids is None else torch.isin(features["input_ids"], self.continuing_ids)
        fraction = self.hparams["mask_fraction"]
        return mask_features(features, self.encoder.tokenizer, fraction, stream.generator(), continues)

    def loss(self, features: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """Mean cross-entropy in nats over the chosen tokens, share of them predicted rightly, and their number.

        A batch in which no token was chosen has loss 0, which keeps the graph alive under several processes.
        """
        logits, wanted = predict_chosen(self.predictor, self.encoder, [features], [labels])
        total = functional.cross_entropy(logits.float(), wanted, reduction="sum")
        right = (logits.argmax(-1) == wanted).sum()
        return total / max(len(wanted), 1), right / max(len(wanted), 1), len(wanted)

    def word_cosine(self) -> Tensor:
        """Mean cosine over all pairs of word embeddings."""
        return mean_pair_cosine(self.predictor.get_input_embeddings().weight)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        """Loss of a batch under the masks of this step."""
        loss, accuracy, _ = self.loss(*self.masked(batch, self.stream("masks", batch_idx)))
        self.log_dict({"step/mlm_loss": loss.detach(), "step/mlm_accuracy": accuracy})
        if self.hparams["cosreg_weight"]:
            word_cosine = self.word_cosine()
            self.log("step/word_cosine", word_cosine.detach())
            loss = loss + self.hparams["cosreg_weight"] * word_cosine
        self.check_loss(loss, batch_idx)
        return loss

    def on_validation_epoch_start(self) -> None:
        """Begin the held-out figures anew: those of a validation outside of a fit cannot go on in one."""
        self.held_out_loss.reset()
        self.held_out_accuracy.reset()

    on_test_epoch_start = on_validation_epoch_start

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        """Loss and accuracy of a batch under its fixed masks."""
        masks = Stream(self.hparams["seed"], "validation masks", batch=batch_idx)
        loss, accuracy, count = self.loss(*self.masked(batch, masks))
        # Weighted by the chosen tokens, over all batches of all processes.
        self.held_out_loss.update(loss, max(count, 1))
        self.held_out_accuracy.update(accuracy, max(count, 1))
        self.log("val/mlm_loss", self.held_out_loss, on_epoch=True)
        self.log("val/mlm_accuracy", self.held_out_accuracy, on_epoch=True)

    test_step = validation_step

    # ------------------------------------------------------------- embedding

    def start_encoder(self) -> SentenceEncoder:
        """The encoder that the training started from, made again."""
        if not self.hparams["scratch"]:
            return super().start_encoder()
        encoder = self.encoder
        return self._new_encoder(encoder.tokenizer, encoder.layers, encoder.pooling, encoder.max_length)

    def saved_backbone(self) -> tuple[Any, str]:
        """The network with its prediction layers, so that it can be trained further, and the encoder's pooling."""
        return self.predictor, self.encoder.pooling


def _continuing_ids(encoder: SentenceEncoder) -> Tensor:
    vocabulary = encoder.tokenizer.get_vocab()
    ids = sorted(number for token, number in vocabulary.items() if token.startswith(_CONTINUES))
    if not ids:
        raise UserError(
            f"whole_words: received true, but the tokenizer of {encoder.path} has no pieces marked "
            f"{_CONTINUES!r}; allowed with it: false"
        )
    return torch.tensor(ids)
