"""Sentences to vectors through a Hugging Face encoder: layers averaged, tokens pooled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from flowbert.encoders.after_pooling import AfterPooling
from flowbert.encoders.cpu.attention import attention_of
from flowbert.encoders.cpu.layout import weights_laid_out
from flowbert.encoders.cpu.packing import PACKED_ATTENTION, Packing
from flowbert.encoders.cpu.parallel import most_batches
from flowbert.encoders.forward import Setting, embed, embed_packed, evaluating
from flowbert.encoders.identity import digest_config, digest_tokenizer
from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.loading import find_checkpoint, load_checkpoint
from flowbert.encoders.pooling import POOLER, WITHOUT_POOLER, make_pooling
from flowbert.encoders.position_embeddings import NO_LIMIT, check_max_length, first_position, longest_input
from flowbert.encoders.settings import choose_settings, warn_of_other_use
from flowbert.encoders.token_counts import FITTED_ON, TokenCounts
from flowbert.encoders.tokens import TokenRow, count_tokens, input_names, pad_tokens, plan_batches, tokenize
from flowbert.encoders.transfer import one_behind, to_device
from flowbert.errors import UserError
from flowbert.io.digest import digest_tensors
from flowbert.progress import progress
from flowbert.threads import in_threads

# On a CPU larger batches fall out of its caches and cost page faults; an accelerator wants many tokens at once.
BATCH_TOKENS_CPU = 512
BATCH_TOKENS_ACCELERATOR = 16384
_NOT_IN_KEYS = ("path", "revision", "prompt", "modules")  # the first two play no role, the others where they are used
_VECTORS = 1  # raise it with every change that moves the vectors: stored ones must not outlive the code that made them


class SentenceEncoder(nn.Module):
    r"""One vector per sentence: :math:`u = \mathrm{pool}\big(\frac{1}{|S|} \sum_{k \in S} h_k\big)`, in float32.

    A frozen encoder stays in evaluation mode without gradients whatever its owner does, and computes in its own dtype
    also under mixed precision, so that equal sentences give equal vectors. With ``frozen=False`` it trains like any
    module.

    Args:
        backbone: A Hugging Face encoder; its configuration says D (``hidden_size``) and L (``num_hidden_layers``).
        tokenizer: The tokenizer that belongs to it.
        layers: Layers to average: a name or numbers, see :func:`flowbert.encoders.resolve_layers`.
        pooling: One of :data:`flowbert.encoders.pooling.POOLINGS`, over real tokens, with its options after colons;
            ``cls_pooler`` is the backbone's own layer over position 0, only with the last layer.
        max_length: Tokens, special ones included, after which a sentence is cut.
        path: Where the encoder came from, for messages and results.
        revision: Commit on the hub, if it came from there.
        frozen: Whether the weights stay as they are.
        counts: Token counts, which ``idf``, ``sif`` and ``weighted_mean`` need, or what to count later, see
            :func:`flowbert.encoders.counting.choose_counted`.
        prompt: Text before every sentence; its tokens are read, counted and pooled like all others.
        after_pooling: What every pooled vector goes through.

    Shapes:
        features: each ``(B, T)``; result: ``(B, D)``.  B: batch, T: tokens, D: embedding size.

    Raises:
        UserError: For unknown layers or pooling, ``cls_pooler`` where there is none, an impossible ``max_length``, or
            modules after the pooling of an encoder that is to be trained.

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
        counts: TokenCounts | str = FITTED_ON,
        prompt: str = "",
        after_pooling: AfterPooling | None = None,
    ) -> None:
        super().__init__()
        config: Any = backbone.config
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.after_pooling = AfterPooling() if after_pooling is None else after_pooling
        self.dim: int = self.after_pooling.out_features or config.hidden_size
        self.num_layers: int = config.num_hidden_layers
        self.layers = resolve_layers(layers, self.num_layers)
        self._pooling = make_pooling(pooling, tokenizer)
        self.settings: tuple[Setting, ...] = ((self.layers, self._pooling),)
        self.counts: TokenCounts | None = None
        self.count_over = counts if isinstance(counts, str) else ""
        self.max_length = max_length
        self.prompt = prompt
        self.path = path
        self.revision = revision
        self.frozen = frozen
        self._digests: dict[str, str] = {}
        tokenizer.padding_side = "right"  # position 0 must be [CLS] in every row
        self._check_pooler()
        self.after_pooling.check(self.layers, self.pooling, self.num_layers)
        if not frozen and len(self.after_pooling):
            raise UserError(
                f"modules: received {self.after_pooling.word}; allowed for an encoder that is trained: none"
            )
        check_max_length(max_length, backbone, tokenizer)
        self.register_load_state_dict_post_hook(_forget_digests)  # type: ignore[no-untyped-call]
        self.requires_grad_(not frozen)
        self.train(not frozen)
        if isinstance(counts, TokenCounts):
            self.use_counts(counts)

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
        counts: TokenCounts | str | None = None,
        prompt: str | None = None,
        modules: str | None = None,
    ) -> Self:
        """Load an encoder from a folder, the hub, a run folder, or ``builtin-sample``.

        Code that a checkpoint brings along is never run. Where an encoder was trained here, what is not told is as it
        was trained; else, in a sentence-transformers folder, as that says; else as usual.

        Args:
            path: A folder, a hub name (``owner/name@v1`` too), a trained encoder's run folder, or ``builtin-sample``.
            revision: Commit, branch or tag on the hub; wins over one behind ``@``.
            layers: Hidden states to average: ``last``, ``last2``, ``first_last``, ``embedding_last``, or numbers
                (0 is the embedding layer, 1 the first block, -1 the last). Usual: ``last``.
            pooling: One of :data:`flowbert.encoders.pooling.POOLINGS`, with its options after colons: ``idf``,
                ``sif:a=0.01``. Usual: ``mean``.
            max_length: Tokens after which a sentence is cut; 0: as many as it can read. Usual: 128, or as many.
            dtype: Precision of the computation: ``float32``, ``float16`` or ``bfloat16``; the result is float32.
            frozen: Whether the weights stay as they are.
            counts: Token counts for the poolings that need them, or what to count: ``corpus`` (what is fitted on),
                ``run`` (what is measured, in a fit with that), a run folder, a hub name, a corpus. Usual: ``corpus``.
            prompt: Text before every sentence, such as ``"query: "``. Usual: none.
            modules: What of the modules after the pooling of a sentence-transformers folder is applied: ``dense`` (up
                to the last Dense, usual), ``all`` (its Normalize as well), or ``none`` (usual if it was exported here).

        Raises:
            UserError: If the encoder cannot be loaded, or an option does not fit it.
        """
        folder, revision = find_checkpoint(str(path), revision)
        given = {"layers": layers, "pooling": pooling, "max_length": max_length, "counts": counts}
        used = choose_settings(str(path), folder, {**given, "prompt": prompt, "modules": modules}, frozen=frozen)
        keep_pooler = make_pooling(used["pooling"]).name == POOLER
        backbone, tokenizer = load_checkpoint(str(path), folder, dtype=dtype, keep_pooler=keep_pooler)
        longest = longest_input(backbone)
        usual = min(used["max_length"], longest or used["max_length"])
        used["max_length"] = usual if max_length is None else max_length or longest or NO_LIMIT
        encoder = cls(backbone, tokenizer, path=str(path), revision=revision, frozen=frozen, **used)
        warn_of_other_use(folder, encoder.describe())
        return encoder

    @property
    def pooling(self) -> str:
        """Pooling as an option names it."""
        return self._pooling.text

    @property
    def needs_counts(self) -> bool:
        """Whether the pooling weighs tokens by counts and there are none yet."""
        return self._pooling.counted and self.counts is None

    def count_tokens(self, sentences: Iterable[str], name: str = "") -> TokenCounts:
        """Count the tokens of sentences, every occurrence, as they are cut here; the name is for tables."""
        return count_tokens(self.tokenizer, sentences, self.max_length, name, self.prompt)

    def use_counts(self, counts: TokenCounts) -> None:
        """Weigh tokens by these counts, where the pooling does.

        Raises:
            UserError: If they are of another vocabulary, or of no token.
        """
        self._pooling = self._pooling.with_counts(counts, self.tokenizer)
        self.counts = counts if self._pooling.counted else None
        self.settings = ((self.layers, self._pooling),)

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
        return pad_tokens(self.tokenizer, self._tokens(sentences))

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """Tokens of each sentence, special ones included, after truncation."""
        return [len(row["input_ids"]) for row in self._tokens(sentences)]

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """Embed token features ``(B, T)`` as :meth:`tokenize` gives them: ``(B, D)``, float32."""
        return self.embed_chunks([features])

    def embed_chunks(self, chunks: Sequence[Mapping[str, Tensor]]) -> Tensor:
        """Embed chunks of token features, each ``(b, t)``, in order: ``(B, D)`` for B sentences in all, float32.

        An encoder that packs sends them through its layers together.
        """
        if not self.frozen:
            return self._embed_chunks(chunks)
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return self._embed_chunks(chunks)

    @property
    def packs(self) -> bool:
        """Whether it computes no padding, as :func:`flowbert.encoders.cpu.training.fast_training` lets it."""
        return attention_of(self.backbone) == PACKED_ATTENTION

    def pack(self, chunks: Sequence[Mapping[str, Tensor]]) -> Packing:
        """Chunks of token features, each ``(b, t)``, as one sequence for the network of an encoder that packs."""
        return Packing(chunks, first_position(self.backbone) or 0)

    def encode(
        self, sentences: Sequence[str], *, batch_tokens: int | None = None, on_batch: Callable[[int], Any] | None = None
    ) -> npt.NDArray[np.float32]:
        """Embed sentences in evaluation mode, in batches of similar length, on the device of the module.

        Args:
            sentences: N sentences in any order.
            batch_tokens: Padded tokens per batch; default: 512 on a CPU, 16384 elsewhere.
            on_batch: Called after every batch with the number of sentences that it held, in place of a progress bar.

        Returns:
            Shape ``(N, D)``, float32, in the order of ``sentences``.

        Raises:
            UserError: If an embedding is not finite (float16 overflows).
            ValueError: If ``batch_tokens`` is below 1.
        """
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS_CPU if self.device.type == "cpu" else BATCH_TOKENS_ACCELERATOR
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens: received {batch_tokens}; allowed: 1 or more")
        rows = self._tokens(sentences)
        result = np.empty((len(sentences), self.dim), dtype=np.float32)
        plan = plan_batches([len(row["input_ids"]) for row in rows], sentences, batch_tokens)
        counted = progress(0 if on_batch else len(sentences), "Encoding", "sentences")

        def embed_batch(batch: Sequence[int]) -> Tensor:
            return self._embed_chunks([to_device(pad_tokens(self.tokenizer, [rows[i] for i in batch]), self.device)])

        with (
            evaluating(self),
            weights_laid_out(self.backbone, len(plan), batch_tokens),
            counted as step,
            in_threads(embed_batch, plan, most_batches(self.backbone)) as embedded,
        ):
            for batch, vectors in zip(plan, one_behind(embedded), strict=True):
                result[batch] = vectors.cpu().numpy()
                (on_batch or step.update)(len(batch))
        if not np.isfinite(result).all():
            first = int(np.flatnonzero(~np.isfinite(result).all(axis=1))[0])
            told = f"the embedding of {sentences[first]!r} is not finite in {self.dtype}"
            raise UserError(f"dtype: {told}; allowed: float32")
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
            "prompt": self.prompt,
            "modules": self.after_pooling.word,
        }

    def key(self) -> dict[str, Any]:
        """Identity of the embeddings, as JSON values: equal keys give equal vectors, wherever the folder lies."""
        if not self.frozen or "weights" not in self._digests:
            self._digests["weights"] = digest_tensors(self.backbone.state_dict())
        identity = {"weights": self._digests["weights"], **self.kind(), "revision": self.revision}
        return identity | ({"vectors": _VECTORS} if _VECTORS > 1 else {})

    def kind(self) -> dict[str, Any]:
        """The same without the weights and where they came from: what training does not change."""
        if "tokenizer" not in self._digests:
            self._digests["config"] = digest_config(self.backbone.config)  # type: ignore[arg-type]
            self._digests["tokenizer"] = digest_tokenizer(self.tokenizer)
        identity = {name: value for name, value in self.describe().items() if name not in _NOT_IN_KEYS}
        if self.prompt:  # what is not used is not told: keys made before there was a prompt stay valid
            identity["prompt"] = self.prompt
        digests = {name: self._digests[name] for name in ("config", "tokenizer")}
        return digests | identity | self._pooling.key() | self.after_pooling.key()

    def _embed_chunks(self, chunks: Sequence[Mapping[str, Tensor]]) -> Tensor:
        if self.packs:
            return embed_packed(self.backbone, self.pack(chunks), chunks, self.settings, self.after_pooling)
        return torch.cat([embed(self.backbone, chunk, self.settings, self.after_pooling) for chunk in chunks])

    def _tokens(self, sentences: Sequence[str]) -> list[TokenRow]:
        return tokenize(self.tokenizer, sentences, self.max_length, input_names(self.backbone), self.prompt)

    def _check_pooler(self) -> None:
        if self._pooling.name == POOLER and getattr(self.backbone, "pooler", None) is None:
            allowed = ", ".join(WITHOUT_POOLER)
            raise UserError(f"pooling: cls_pooler needs a pooler, encoder {self.path!r} has none; allowed: {allowed}")
        if self._pooling.name == POOLER and self.layers != (self.num_layers,):
            raise UserError(
                f"layers: received {list(self.layers)}; allowed with pooling cls_pooler: last ({self.num_layers})"
            )


def _forget_digests(encoder: nn.Module, _keys: Any) -> None:
    if isinstance(encoder, SentenceEncoder):
        encoder._digests.clear()
