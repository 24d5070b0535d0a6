"""Sentences to vectors through a Hugging Face encoder: layers averaged, tokens pooled."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedTokenizerBase

from flowbert.encoders.batching import plan_batches
from flowbert.encoders.cpu.attention import attention_of
from flowbert.encoders.cpu.packing import PACKED_ATTENTION, Packing, can_pack, packed_attention
from flowbert.encoders.identity import digest_config, digest_tokenizer
from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.loading import load_checkpoint, trained_settings
from flowbert.encoders.pooling import check_pooling, mix_layers, pool
from flowbert.encoders.positions import first_position, longest_input
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.digest import digest_tensors

# On a CPU larger batches fall out of its caches and cost page faults (measured by benchmarks/encode.py); an accelerator
# wants many tokens at once.
BATCH_TOKENS_CPU = 512
BATCH_TOKENS_ACCELERATOR = 16384
_TOKENIZE_AT_ONCE = 1024
_VECTORS = 1  # raise it with every change that moves the vectors: stored ones must not outlive the code that made them


class SentenceEncoder(nn.Module):
    r"""One vector per sentence: :math:`u = \mathrm{pool}\big(\frac{1}{|S|} \sum_{k \in S} h_k\big)`, in float32.

    A frozen encoder stays in evaluation mode without gradients whatever its owner does, and computes in its own dtype
    also under mixed precision, so that equal sentences give equal vectors. With ``frozen=False`` it trains like any
    module.

    Args:
        backbone: A Hugging Face encoder; its configuration says D (``hidden_size``) and L (``num_hidden_layers``).
        tokenizer: The tokenizer that belongs to it.
        layers: Layers to average: a name or numbers, see :func:`flowbert.encoders.layers.resolve_layers`.
        pooling: ``mean`` and ``max`` over real tokens, ``cls``, or ``cls_pooler`` (the backbone's own layer over
            position 0, only with the last layer).
        max_length: Tokens, special ones included, after which a sentence is cut.
        path: Where the encoder came from, for messages and results.
        revision: Commit on the hub, if it came from there.
        frozen: Whether the weights stay as they are.

    Shapes:
        features: each ``(B, T)``; result: ``(B, D)``.  B: batch, T: tokens, D: embedding size.

    Raises:
        UserError: For unknown layers or pooling, ``cls_pooler`` where there is none, or an impossible ``max_length``.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Example:
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
        >>> encoder.encode(["a dog runs", "a cat"]).shape == (2, encoder.dim)
        True
    """

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        *,
        layers: str | int | Sequence[int] = "last",
        pooling: str = "mean",
        max_length: int = 128,
        path: str = "",
        revision: str | None = None,
        frozen: bool = True,
    ) -> None:
        super().__init__()
        config: Any = backbone.config
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.dim: int = config.hidden_size
        self.num_layers: int = config.num_hidden_layers
        self.layers = resolve_layers(layers, self.num_layers)
        self.settings: tuple[tuple[int, ...], ...] = (self.layers,)
        self.pooling = check_pooling(pooling)
        self.max_length = max_length
        self.path = path
        self.revision = revision
        self.frozen = frozen
        self.packs = False
        self._padded_attention: str | None = None
        self._digests: dict[str, str] = {}
        # Position 0 must be [CLS] in every row.
        tokenizer.padding_side = "right"
        self._check_pooler()
        self._check_max_length()
        self.register_load_state_dict_post_hook(_forget_digests)  # type: ignore[no-untyped-call]
        self.requires_grad_(not frozen)
        self.train(not frozen)

    @classmethod
    def from_pretrained(
        cls,
        path: str,
        *,
        revision: str | None = None,
        layers: str | int | Sequence[int] | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        frozen: bool = True,
    ) -> Self:
        """Load an encoder from a folder, the hub, a run folder, or ``builtin-sample``.

        Code that a checkpoint brings along is never run. A sentence-transformers folder loads as its transformer.

        Args:
            path: A folder, a hub name, the run folder of a trained encoder, or ``builtin-sample``.
            revision: Commit, branch or tag on the hub.
            layers: Hidden states to average: ``last``, ``last2``, ``first_last``, ``embedding_last``, or numbers
                (0 is the embedding layer, 1 the first block, -1 the last). Default: those an encoder was trained with
                here, else ``last``.
            pooling: ``mean``, ``cls``, ``cls_pooler`` or ``max`` over tokens. Default: as trained, else ``mean``.
            max_length: Tokens after which a sentence is cut. Default: as trained, else 128.
            dtype: Precision of the computation: ``float32``, ``float16`` or ``bfloat16``; the result is float32.
            frozen: Whether the weights stay as they are.

        Raises:
            UserError: If the encoder cannot be loaded, or an option does not fit it.
        """
        trained = trained_settings(path)
        layers = trained.get("layers", "last") if layers is None else layers
        pooling = trained.get("pooling", "mean") if pooling is None else pooling
        checkpoint = load_checkpoint(
            str(path), revision=revision, dtype=dtype, keep_pooler=check_pooling(pooling) == "cls_pooler"
        )
        encoder = cls(
            checkpoint.backbone,
            checkpoint.tokenizer,
            layers=layers,
            pooling=pooling,
            max_length=trained.get("max_length", 128) if max_length is None else max_length,
            path=str(path),
            revision=checkpoint.revision,
            frozen=frozen,
        )
        encoder._warn_unless_used_as(trained)
        return encoder

    def _warn_unless_used_as(self, trained: Mapping[str, Any]) -> None:
        here = self.describe()
        for name in ("layers", "pooling"):
            if name in trained and trained[name] != here[name]:
                warnings.warn(
                    f"encoder {self.path!r} was trained with {name} {trained[name]}, and is used with {here[name]}",
                    FlowbertWarning,
                    stacklevel=3,
                )

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.backbone.parameters()).device

    @property
    def longest(self) -> int | None:
        """Most tokens that the backbone can read; None without a limit."""
        return longest_input(self.backbone)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.backbone.parameters()).dtype

    def train(self, mode: bool = True) -> "SentenceEncoder":
        """Set training mode, which a frozen backbone does not follow."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Token features of one batch, padded to its longest sentence: tensors of shape ``(B, T)`` on the CPU."""
        return self._pad(self._token_rows(sentences))

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """Tokens of each sentence, special ones included, after truncation."""
        return [len(row["input_ids"]) for row in self._token_rows(sentences)]

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """Embed token features ``(B, T)`` as :meth:`tokenize` gives them: ``(B, D)``, float32."""
        return self.embed_chunks([features])

    def embed_chunks(self, chunks: Sequence[Mapping[str, Tensor]]) -> Tensor:
        """Embed chunks of token features, each ``(b, t)``, in order: ``(B, D)`` for B sentences in all, float32.

        An encoder that packs (:meth:`pack_sentences`) sends them through its layers together.
        """
        if not self.frozen:
            return self._embed_chunks(chunks)
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return self._embed_chunks(chunks)

    def pack_sentences(self, on: bool = True) -> bool:
        """Compute no padding from now on, where the network allows it: the fastest way to train on a CPU.

        The vectors stay what they are, up to rounding. The network itself takes no padded features meanwhile.

        Args:
            on: False goes back to padding.

        Returns:
            Whether it packs now: BERT, RoBERTa, DistilBERT, ELECTRA, ALBERT and their like do, except with
            ``cls_pooler``.
        """
        wanted = on and can_pack(self.backbone) and self.pooling != "cls_pooler"
        if wanted != self.packs:
            backbone: Any = self.backbone
            if wanted:
                self._padded_attention = attention_of(backbone)
                AttentionInterface.register(PACKED_ATTENTION, packed_attention)
            backbone.set_attn_implementation(PACKED_ATTENTION if wanted else self._padded_attention)
            self.packs = wanted
        return self.packs

    def pack(self, chunks: Sequence[Mapping[str, Tensor]]) -> Packing:
        """Chunks of token features, each ``(b, t)``, as one sequence for the network of an encoder that packs."""
        return Packing(chunks, first_position(self.backbone) or 0)

    def embed(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed a few sentences as one padded batch: ``(B, D)``, in evaluation mode."""
        return self.encode(sentences, batch_tokens=max(1, len(sentences)) * self.max_length)

    def encode(
        self, sentences: Sequence[str], *, batch_tokens: int | None = None, on_batch: Callable[[int], Any] | None = None
    ) -> npt.NDArray[np.float32]:
        """Embed sentences in evaluation mode, in batches of similar length, on the device of the module.

        Args:
            sentences: N sentences in any order.
            batch_tokens: Padded tokens per batch; default: 512 on a CPU, 16384 elsewhere.
            on_batch: Called after every batch with the number of sentences that it held.

        Returns:
            Shape ``(N, D)``, float32, in the order of ``sentences``.

        Raises:
            UserError: If ``batch_tokens`` is below 1, or an embedding is not finite (float16 overflows).
        """
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS_CPU if self.device.type == "cpu" else BATCH_TOKENS_ACCELERATOR
        if batch_tokens < 1:
            raise UserError(f"batch_tokens is {batch_tokens}; allowed: 1 or more")
        rows = self._token_rows(sentences)
        result = np.empty((len(sentences), self.dim), dtype=np.float32)
        with self._evaluating():
            for batch in plan_batches([len(row["input_ids"]) for row in rows], sentences, batch_tokens):
                features = {name: value.to(self.device) for name, value in self._pad([rows[i] for i in batch]).items()}
                result[batch] = self._embed_chunks([features]).cpu().numpy()
                if on_batch is not None:
                    on_batch(len(batch))
        if not np.isfinite(result).all():
            first = int(np.flatnonzero(~np.isfinite(result).all(axis=1))[0])
            raise UserError(f"the embedding of {sentences[first]!r} is not finite in {self.dtype}; allowed: float32")
        return result

    def describe(self) -> dict[str, Any]:
        """Where the encoder came from and how it is used, as JSON values: enough to load it again."""
        return {
            "path": self.path,
            "revision": self.revision,
            "layers": list(self.layers),
            "pooling": self.pooling,
            "dtype": str(self.dtype).removeprefix("torch."),
            "max_length": self.max_length,
        }

    def key(self) -> dict[str, Any]:
        """Identity of the embeddings, as JSON values: equal keys give equal vectors, wherever the folder lies."""
        if self.frozen and "weights" in self._digests:
            weights = self._digests["weights"]
        else:
            weights = self._digests["weights"] = digest_tensors(self.backbone.state_dict())
        identity = {"weights": weights, **self.kind(), "revision": self.revision}
        return identity | ({"vectors": _VECTORS} if _VECTORS > 1 else {})

    def kind(self) -> dict[str, Any]:
        """The same without the weights and where they came from: what training does not change."""
        if "tokenizer" not in self._digests:
            self._digests["config"] = digest_config(self.backbone.config)  # type: ignore[arg-type]
            self._digests["tokenizer"] = digest_tokenizer(self.tokenizer)
        identity = {name: value for name, value in self.describe().items() if name not in ("path", "revision")}
        return {name: self._digests[name] for name in ("config", "tokenizer")} | identity

    def _embed_chunks(self, chunks: Sequence[Mapping[str, Tensor]]) -> Tensor:
        return self._embed_packed(chunks) if self.packs else torch.cat([self._embed(chunk) for chunk in chunks])

    def _embed(self, features: Mapping[str, Tensor]) -> Tensor:
        output = self.backbone(**features, output_hidden_states=True, return_dict=True)
        if self.pooling == "cls_pooler":
            pooled: Tensor = output.pooler_output
            return pooled.float()
        return self._pooled(output.hidden_states, [features["attention_mask"]], lambda tokens: [tokens])

    def _embed_packed(self, chunks: Sequence[Mapping[str, Tensor]]) -> Tensor:
        packing = self.pack(chunks)
        states = self.backbone(**packing.inputs(), output_hidden_states=True, return_dict=True).hidden_states
        return self._pooled(states, [chunk["attention_mask"] for chunk in chunks], packing.unpack)

    def _pooled(
        self, states: Sequence[Tensor], masks: Sequence[Tensor], unpack: Callable[[Tensor], Sequence[Tensor]]
    ) -> Tensor:
        """Vectors of every layer setting side by side, from hidden states that ``unpack`` brings into chunks."""
        columns = []
        for layers in self.settings:
            tokens = unpack(mix_layers(states, layers))
            columns.append(torch.cat([pool(x, mask, self.pooling) for x, mask in zip(tokens, masks, strict=True)]))
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def _token_rows(self, sentences: Sequence[str]) -> list[dict[str, list[int]]]:
        accepted = inspect.signature(self.backbone.forward).parameters
        rows: list[dict[str, list[int]]] = []
        for start in range(0, len(sentences), _TOKENIZE_AT_ONCE):
            columns = self.tokenizer(
                list(sentences[start : start + _TOKENIZE_AT_ONCE]),
                truncation=True,
                max_length=self.max_length,
                return_attention_mask=True,
            )
            names = [name for name in columns if name in accepted]
            rows += [dict(zip(names, row, strict=True)) for row in zip(*(columns[n] for n in names), strict=True)]
        for sentence, row in zip(sentences, rows, strict=True):
            if not row["input_ids"]:
                raise UserError(f"sentence {sentence!r} has no tokens; allowed with this tokenizer: at least one")
        return rows

    def _pad(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, Tensor]:
        length = max((len(row["input_ids"]) for row in rows), default=0)
        names = list(rows[0]) if rows else ["input_ids", "attention_mask"]
        fill = {"input_ids": self.tokenizer.pad_token_id, "token_type_ids": self.tokenizer.pad_token_type_id}
        padded = {n: [row[n] + [fill.get(n, 0)] * (length - len(row[n])) for row in rows] for n in names}
        return {name: torch.tensor(values, dtype=torch.long) for name, values in padded.items()}

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = [module for module in self.modules() if module.training]
        self.eval()
        try:
            with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
                yield
        finally:
            for module in training:
                module.training = True

    def _check_pooler(self) -> None:
        if self.pooling != "cls_pooler":
            return
        if getattr(self.backbone, "pooler", None) is None:
            raise UserError(
                f"pooling 'cls_pooler' needs a pooler, encoder {self.path!r} has none; allowed: mean, cls, max"
            )
        if self.layers != (self.num_layers,):
            raise UserError(
                f"pooling 'cls_pooler' reads the last layer alone, received layers {list(self.layers)}; "
                f"allowed: last ({self.num_layers})"
            )

    def _check_max_length(self) -> None:
        least, most = self.tokenizer.num_special_tokens_to_add() + 1, longest_input(self.backbone)
        if self.max_length < least or (most is not None and self.max_length > most):
            limit = "no limit" if most is None else str(most)
            raise UserError(f"max_length is {self.max_length}; allowed with encoder {self.path!r}: {least} to {limit}")


def _forget_digests(encoder: nn.Module, _keys: Any) -> None:
    if isinstance(encoder, SentenceEncoder):
        encoder._digests.clear()
