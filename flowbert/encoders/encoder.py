"""Sentences to vectors through a transformers network: layers averaged, tokens pooled."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.arrays import Floats
from flowbert.encoders.backbone import Backbone, warn_of_bfloat16
from flowbert.encoders.base import BLOCK_SENTENCES, Embedder
from flowbert.encoders.batches import (
    Prefix,
    begin_copy,
    plan_batches,
    to_device,
    with_next_begun,
    workers,
)
from flowbert.encoders.depth import find_blocks
from flowbert.encoders.folders import (
    MODULES_FILE,
    FolderSettings,
    locate,
    quiet,
    read_settings,
    save_token_weights,
    write_settings,
)
from flowbert.encoders.layers import (
    LayerSpec,
    average_layers,
    name_layers,
    resolve_layers,
)
from flowbert.encoders.pooling import (
    FirstTokenPooling,
    LastTokenPooling,
    LearnedWeightsPooling,
    NetworkPooling,
    TokenCounts,
    TokenFeatures,
    make_pooling,
    vocabulary_size,
)
from flowbert.encoders.sanity import (
    check_pooling,
    find,
    is_causal,
    warn_of_findings,
)
from flowbert.encoders.sentence_transformer import load_network, read_modules
from flowbert.encoders.template import (
    SLOT,
    Template,
    check_special_tokens,
    name_template,
    pooling_of,
    prompt_of,
    resolve_template,
    usual_sink,
)
from flowbert.errors import FlowbertWarning, UserError, warn
from flowbert.io import digest_tensors, write_new_folder
from flowbert.threads import in_threads

# Larger batches fall out of the caches of a CPU; an accelerator needs many tokens at once.
BATCH_TOKENS_CPU = 512  # in float32; twice as many in half precision, a tenth faster
BATCH_TOKENS_ACCELERATOR = 16384

PREFIX_SENTENCES = 16
"""Sentences from which the tokens before them are computed once; with fewer, it is slower."""

TOKENIZED_SENTENCES = 1024
"""Sentences that are tokenized at once, while the network computes those before them."""

NOT_LEARNED = (
    "has no learned token weights; learned_weights is the same as mean until a training"
)


class _Batch(NamedTuple):
    """Sentences of a pass: their numbers, and the token features of each."""

    indices: list[int]
    rows: list[dict[str, list[int]]]


class SentenceEncoder(Embedder, nn.Module):
    r"""One vector per sentence: :math:`u = \mathrm{pool}(\frac{1}{|S|} \sum_{k \in S} h_k)`.

    A frozen encoder stays in evaluation mode without gradients whatever its owner does, and
    computes in its own precision under mixed precision, so that equal sentences give equal vectors.
    With ``frozen=False`` it trains like any module.

    Arguments that are None are those of the folder: of ``flowbert.json`` for an encoder trained
    with flowbert, else of the files of sentence-transformers; else the last layer, ``mean``, 128
    tokens and no template.

    Args:
        path: A folder, a run folder with a trained encoder, a hub name (``owner/name@revision``
            too), ``builtin-sample``, or a loaded backbone.
        revision: Commit, branch or tag on the hub.
        layers: Layers to average: a name or numbers, see :func:`resolve_layers`.
        pooling: See :class:`~flowbert.encoders.pooling.Pooling`. With a template None is
            ``last_token``, with ``echo`` the mean.
        max_length: Tokens after which a sentence is cut, special ones included; 0 for as many as
            the network can read.
        dtype: Precision of the computation: ``float32``, ``float16`` or ``bfloat16``.
        template: Text around every sentence, such as ``This sentence : "{}" means in one word:"``,
            or a name of :data:`~flowbert.encoders.template.TEMPLATES`. Its tokens are not pooled,
            but for ``last_token`` and ``cls``. A template that ends in its only ``{}`` is a prompt
            as sentence-transformers has it, whose tokens are pooled, too.
        sink_token: Token in front of every sentence that takes the attention of a first word and is
            not pooled. None is, in a decoder without a template, the token that the tokenizer
            writes there, else ``<|endoftext|>``, BOS or EOS; empty for none.
        frozen: Whether the weights stay as they are.
        count_over: Sentences whose tokens ``idf`` and ``sif`` count, if no weights are saved.
        token_weights: Saved :attr:`token_weights`.
        by_layer: Cache the vectors of each layer and average them where they are read, so that they
            serve all sets of layers; not with a pooling that is not linear.

    Attributes:
        backbone: Network and tokenizer, shared by all variants.
        layers: Indices of the layers that are averaged.
        pooling: Pooling over tokens.
        wrapping: Tokens around a sentence that are not pooled; None without them.
        sink_token: Token in front that is not pooled; empty for none.
        log_token_factors: Table of pooling ``learned_weights``, ``(V, 1)``; None where it is not
            trained.

    Shapes:
        features: each ``(B, T)``; result: ``(B, D)``.  B: batch, T: tokens, D: size of a vector.

    Raises:
        UserError: If the encoder cannot be loaded, or an option does not fit it.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Example:
        >>> encoder = SentenceEncoder("builtin-sample", layers="first_last")
        >>> encoder.encode(["a dog runs", "a cat"]).shape
        (2, 128)
    """

    def __init__(
        self,
        path: str | Path | Backbone = "builtin-sample",
        *,
        revision: str | None = None,
        layers: LayerSpec | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        template: str | None = None,
        sink_token: str | None = None,
        frozen: bool = True,
        count_over: Sequence[str] = (),
        token_weights: Tensor | None = None,
        by_layer: bool = False,
    ) -> None:
        super().__init__()
        settings = FolderSettings()
        usual = pooling_of(template)
        if isinstance(path, Backbone):
            if revision is not None or dtype != "float32":
                raise ValueError("revision, dtype: expected none for a loaded backbone")
            self.backbone = path
        else:
            files = locate(str(path), revision)
            settings, library = read_settings(files.folder), None
            if not settings.trained and (files.folder / MODULES_FILE).is_file():
                changed = not frozen or layers is not None or pooling is not None
                library = load_network(str(path), files, dtype, changed)
                settings = read_modules(library.model)
            pooler = isinstance(
                make_pooling(pooling or usual or settings.pooling), NetworkPooling
            )
            if library is None:
                self.backbone = Backbone.load(str(path), files, dtype, pooler)
            else:
                self.backbone = Backbone.checked(
                    str(path),
                    library.model[0].auto_model,
                    library.model[0].tokenizer,
                    files.revision,
                    library.report,
                    pooler,
                )
            self.backbone.settings = settings
        self.path = self.backbone.path
        self.num_layers = self.backbone.num_layers
        self.frozen = frozen
        self.layers = resolve_layers(
            settings.layers if layers is None else layers, self.num_layers
        )
        self.max_length = self.backbone.choose_length(max_length, settings.max_length)
        self.template = resolve_template(
            settings.template if template is None else template
        )
        self.pooling = make_pooling(pooling or usual or settings.pooling)
        self.by_layer = by_layer and self.pooling.linear
        saved = self.backbone.settings
        if token_weights is None and _same_weights(str(self.pooling), saved.pooling):
            token_weights = saved.token_weights
        self.counted = self.pooling.counts and token_weights is None
        if (pooling, template, sink_token) == (None, None, None):
            sink_token = settings.sink_token
        self.sink_token = self._usual_sink() if sink_token is None else sink_token
        self.wrapping = self._wrap()
        self._check_pooler()
        self.pooling.bind(
            self.backbone.tokenizer,
            lambda: self._count_tokens(count_over),
            token_weights,
        )
        self.dim = self.pooling.output_dim(self.backbone.dim)
        self.log_token_factors = None
        if isinstance(self.pooling, LearnedWeightsPooling):
            if not frozen:
                self.log_token_factors = self.pooling.train_weights()
            elif token_weights is None:
                warnings.warn(
                    f"encoder: {self.path} {NOT_LEARNED}", FlowbertWarning, stacklevel=2
                )
        settings.check_use(self.path, frozen)
        if frozen:
            self.requires_grad_(False)
        if frozen or self.backbone is not path:
            self.train(not frozen)
        else:  # a backbone that others may share stays in its mode
            self.training = self.backbone.training

    def variant(
        self,
        *,
        layers: LayerSpec | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        count_over: Sequence[str] = (),
        by_layer: bool | None = None,
        template: str | None = None,
        sink_token: str | None = None,
    ) -> "SentenceEncoder":
        """The same backbone, read in another way; None keeps the options of this encoder.

        The pooling that it has keeps its token weights, and the one that its folder was saved with
        has those of the folder; nothing is counted for them.
        """
        if (pooling, template, sink_token) == (None, None, None):
            sink_token = self.sink_token
        pooling = pooling or pooling_of(template)
        kept = pooling is None or _same_weights(pooling, str(self.pooling))
        changed: dict[str, Any] = {
            "layers": layers,
            "pooling": pooling,
            "max_length": max_length,
            "template": template,
            "by_layer": by_layer,
        }
        other = self.on(
            self.backbone,
            sink_token=sink_token,
            count_over=count_over,
            token_weights=self.token_weights if kept else None,
            **{name: value for name, value in changed.items() if value is not None},
        )
        other.counted = self.counted if kept else other.counted
        return other

    def as_saved(self) -> "SentenceEncoder":
        """The same backbone with the layers, the pooling and the template of its folder."""
        saved = self.backbone.settings
        return self.variant(
            layers=saved.layers,
            pooling=saved.pooling,
            template=saved.template,
            sink_token=saved.sink_token,
        )

    def on(self, backbone: Backbone, **changed: Any) -> "SentenceEncoder":
        """This encoder on a backbone of its vocabulary, with changed arguments."""
        own: dict[str, Any] = {
            "frozen": self.frozen,
            "token_weights": self.token_weights,
            "by_layer": self.by_layer,
        }
        return SentenceEncoder(backbone, **self.reading | own | changed)

    def _usual_sink(self) -> str:
        """Token in front of the sentences of a decoder, if its pooling reads those behind it."""
        tokenizer = self.backbone.tokenizer
        is_read = self.pooling.over_tokens or isinstance(self.pooling, LastTokenPooling)
        is_template = self.template and not self.prompt
        if not is_read or is_template or not tokenizer.is_fast:
            return ""
        if tokenizer.cls_token_id is not None or not is_causal(self.backbone):
            return ""
        return usual_sink(tokenizer)

    def _wrap(self) -> Template | None:
        """Tokens around a sentence that are not pooled: a template, a sink in front of it."""
        tokenizer = self.backbone.tokenizer
        check_special_tokens(self.template, tokenizer)
        text = SLOT if self.prompt else self.template
        if not self.sink_token and text in ("", SLOT):
            return None
        wrapping = Template.make(text or SLOT, tokenizer)
        if self.sink_token:
            wrapping = wrapping.behind(self.sink_token, tokenizer)
        wrapping.room(self.max_length)
        return wrapping

    def _check_pooler(self) -> None:
        """Raise a UserError where the network's pooler is asked for and cannot be used."""
        if not isinstance(self.pooling, NetworkPooling):
            return
        if self.layers != (self.num_layers,):
            raise UserError(
                f"received {list(self.layers)}; expected last with {self.pooling}",
                argument="layers",
            )
        if not self.backbone.has_pooler:
            raise UserError(
                f"received {str(self.pooling)!r}, but the encoder was loaded without its pooler",
                argument="pooling",
            )

    @property
    def parts(self) -> list["SentenceEncoder"]:
        """The encoders whose cached vectors are averaged: itself, or one for each layer."""
        if not self.by_layer:
            return [self]
        return [self.variant(layers=layer, by_layer=False) for layer in self.layers]

    @property
    def token_weights(self) -> Tensor | None:
        """Weight of each token of the vocabulary, ``(V,)``; None where the pooling has none."""
        return self.pooling.weights

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.backbone.device

    def train(self, mode: bool = True) -> "SentenceEncoder":
        """Set training mode, which a frozen backbone does not follow."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Token features of one batch, padded to its longest sentence: ``(B, T)`` on the CPU."""
        return self.backbone.pad(list(self.tokens(sentences)))

    @property
    def prompt(self) -> str:
        """Text before every sentence whose tokens are pooled."""
        return prompt_of(self.template)

    def with_template_in_tokenizer(self) -> "SentenceEncoder":
        """The same network without a template, whose tokens its tokenizer adds.

        Poolings over tokens then include them, unless ``special_tokens_mask`` of
        :meth:`Template.outside <flowbert.encoders.template.Template.outside>` says where they are.

        Raises:
            UserError: If the tokenizer joins a space of the template to the sentence.
        """
        if self.wrapping is None:
            return self
        if self.wrapping.context or self.wrapping.space:
            raise UserError(
                argument="template",
                received=self.template,
                expected=f"{SLOT} before which this tokenizer treats a sentence as alone",
            )
        tokenizer = self.wrapping.add_to(self.backbone.tokenizer)
        backbone = self.backbone.like(tokenizer=tokenizer)
        if self.wrapping.text == SLOT:
            return self.on(backbone)
        # A tokenizer counts a repeated sentence once.
        length = self.wrapping.fixed + self._room()
        return self.on(backbone, template="", sink_token="", max_length=length)

    def without_upper_blocks(self) -> "SentenceEncoder":
        """The same vectors from a network without the blocks that they do not read.

        One more than the highest layer stays: the last hidden state of many networks has passed a
        norm.
        """
        backbone = self.backbone.first_blocks(max(self.layers) + 1)
        return self if backbone is self.backbone else self.on(backbone)

    def freeze_unread(self) -> None:
        """Parameters that no vector depends on require no gradients, for which DDP would wait."""
        blocks = find_blocks(self.backbone.network.base_model).values()
        # A sentence need not read all experts of a block.
        read = {p for each in blocks for p in each[: max(self.layers)].parameters()}
        others = [p for p in self.parameters() if p.requires_grad and p not in read]
        if not others:
            return
        features = to_device(self.tokenize(["A man sings."]), self.device)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():  # dropout
            total = self(features).sum()
        gradients = torch.autograd.grad(total, others, allow_unused=True)
        for parameter, gradient in zip(others, gradients, strict=True):
            if gradient is None:
                parameter.requires_grad_(False)

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """Number of tokens of each sentence, special ones included, after truncation."""
        return [len(row["input_ids"]) for row in self.tokens(sentences)]

    def _room(self) -> int:
        """Tokens of a sentence after which it is cut."""
        if self.wrapping is None:
            return self.max_length
        return self.wrapping.room(self.max_length)

    def _warn_of_cut(self, sentences: Sequence[str], lengths: Sequence[int]) -> None:
        """Warn if one of these sentences, of so many tokens, was cut."""
        wrapping = self.wrapping
        room = self._room()
        for sentence, length in zip(sentences, lengths, strict=True):
            if length < self.max_length - 1:  # a repeated sentence may leave one token
                continue
            whole, cut = (
                self._tokenize([sentence], wrapping, truncation=cuts, max_length=room)
                for cuts in (False, True)
            )
            if len(whole["input_ids"][0]) > len(cut["input_ids"][0]):
                warnings.warn(
                    "sentences: some are longer than max_length and are truncated "
                    f"to {self.max_length} tokens",
                    FlowbertWarning,
                    stacklevel=2,
                )
                return

    def _tokenize(
        self, sentences: Sequence[str], wrapping: Template | None, **options: Any
    ) -> Any:
        """Tokens of sentences, without those of a template around them."""
        if wrapping is not None and wrapping.context:
            return self._tokenize_behind(wrapping, sentences, **options)
        before = self.prompt if wrapping is None else self.prompt + wrapping.space
        return self.backbone.tokenizer(
            [before + sentence for sentence in sentences],
            add_special_tokens=wrapping is None,
            return_attention_mask=True,
            verbose=False,
            **options,
        )

    def _tokenize_behind(
        self,
        wrapping: Template,
        sentences: Sequence[str],
        truncation: bool,
        max_length: int,
    ) -> dict[str, list[list[int]]]:
        """Tokens of sentences behind the context of a template, which is taken away."""
        tokenizer = self.backbone.tokenizer
        before = wrapping.context + wrapping.space
        texts = [before + sentence for sentence in sentences]
        kept = slice(max_length)
        if tokenizer.truncation_side == "left":
            kept = slice(-max_length, None)
        columns = tokenizer(texts, add_special_tokens=False, verbose=False)
        context = tokenizer(wrapping.context, add_special_tokens=False)["input_ids"]
        rows = [row[len(context) :] for row in columns["input_ids"]]
        return {"input_ids": [row[kept] if truncation else row for row in rows]}

    def tokens(self, sentences: Sequence[str]) -> Iterator[dict[str, list[int]]]:
        """Token features of each sentence by name, special tokens included, after truncation.

        Tokens of a template that are not pooled have 1 in ``special_tokens_mask``.

        Raises:
            UserError: If a sentence has no token.
        """
        wrapping, room = self.wrapping, self._room()
        for start in range(0, len(sentences), BLOCK_SENTENCES):
            block = sentences[start : start + BLOCK_SENTENCES]
            columns = self._tokenize(block, wrapping, truncation=True, max_length=room)
            names = [name for name in columns if name in self.backbone.inputs]
            for number, sentence in enumerate(block):
                row = {name: columns[name][number] for name in names}
                if not row["input_ids"]:
                    raise UserError(
                        f"received {sentence!r}, which has no tokens",
                        argument="sentences",
                    )
                yield row if wrapping is None else wrapping.wrap(row["input_ids"])

    def _count_tokens(self, sentences: Sequence[str]) -> TokenCounts:
        """Count the tokens of sentences, every occurrence of a sentence."""
        if not len(sentences):
            raise UserError(
                f"received {str(self.pooling)!r} without sentences to count tokens over; expected "
                "a fitted model, count_over, or zipf",
                argument="pooling",
            )
        size = vocabulary_size(self.backbone.tokenizer)
        occurrences, documents = torch.zeros(2, size, dtype=torch.float64)
        for row in self.tokens(sentences):
            ids = np.array(row["input_ids"])
            if "special_tokens_mask" in row:  # of a template
                ids = ids[np.array(row["special_tokens_mask"]) == 0]
            ids, counts = np.unique(ids, return_counts=True)
            occurrences[ids] += torch.from_numpy(counts)
            documents[ids] += 1
        return TokenCounts(occurrences, documents, len(sentences))

    def forward(self, *chunks: TokenFeatures) -> Tensor:
        """Embed token features, each ``(b, t)``: ``(B, D)`` for B sentences in all, float32.

        Args:
            *chunks: Features of :meth:`tokenize`.
        """
        with self.backbone.evaluating() if self.frozen else nullcontext():
            return torch.cat([_compute([self], x) for x in chunks])

    def read(self, output: Any, features: TokenFeatures) -> Tensor:
        """Vectors of a batch, ``(B, D)``, float32.

        Args:
            output: Output of the network, with hidden states.
            features: Its token features, each ``(B, T)``.
        """
        if isinstance(self.pooling, NetworkPooling):
            pooled: Tensor = output.pooler_output.float()
            return pooled
        tokens = average_layers(output.hidden_states, self.layers)
        return self.pool(tokens, features)

    def pool(self, tokens: Tensor, features: TokenFeatures) -> Tensor:
        """Vectors of token vectors ``(B, T, D)``: ``(B, k)``."""
        mask = features["attention_mask"].bool()
        # Tokens of a template, and a sink.
        if self.pooling.over_tokens and "special_tokens_mask" in features:
            mask = mask & (features["special_tokens_mask"] == 0)
        return self.pooling(tokens, mask, features["input_ids"])

    def embed(
        self,
        sentences: Sequence[str],
        on_batch: Callable[[int], Any] | None = None,
        batch_tokens: int | None = None,
    ) -> Floats:
        """Vectors of a list of N sentences: ``(N, D)``, float32.

        Args:
            sentences: The sentences.
            on_batch: Called with the number of sentences after each batch.
            batch_tokens: Tokens of a batch, padding included; None for 512 on a CPU, in half
                precision 1024, and 16384 elsewhere.
        """
        options: dict[str, Any] = {"on_batch": on_batch, "batch_tokens": batch_tokens}
        return self.encode_variants([self], sentences, **options)[0]

    def encode_variants(
        self,
        variants: Sequence["SentenceEncoder"],
        sentences: Sequence[str],
        *,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Floats]:
        """Vectors of several variants from one pass, as :meth:`encode` of each gives them.

        Args:
            variants: This encoder and variants of the same length and template.
            sentences: N sentences.
            batch_tokens: As in :meth:`embed`.
            on_batch: Called with the number of sentences after each batch.

        Returns:
            For each variant shape ``(N, D)``, float32.
        """
        sentences = list(sentences)  # a Series is indexed by its labels
        backbone, device = self.backbone, self.device
        if device.type == "cpu" and backbone.dtype == torch.bfloat16:
            warn_of_bfloat16()
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS_ACCELERATOR
            if device.type == "cpu":
                batch_tokens = BATCH_TOKENS_CPU * 4 // backbone.dtype.itemsize
        shapes = [(len(sentences), variant.dim) for variant in variants]
        results: list[Floats] = [np.empty(shape, dtype=np.float32) for shape in shapes]
        if not len(sentences):
            return results
        ends = np.cumsum([variant.dim for variant in variants])[:-1]

        def plan(prefix: Prefix | None, equal_lengths: bool) -> Iterator[_Batch]:
            order = sorted(
                range(len(sentences)),
                key=lambda i: (len(sentences[i]), sentences[i]),
                reverse=True,
            )
            for start in range(0, len(order), TOKENIZED_SENTENCES):
                block = order[start : start + TOKENIZED_SENTENCES]
                texts = [sentences[i] for i in block]
                rows = list(self.tokens(texts))
                lengths = [len(row["input_ids"]) for row in rows]
                self._warn_of_cut(texts, lengths)
                self._warn_of_equal_vectors(variants, rows)
                if prefix is not None:
                    lengths = [length - prefix.length for length in lengths]
                for batch in plan_batches(lengths, texts, batch_tokens, equal_lengths):
                    yield _Batch([block[k] for k in batch], [rows[k] for k in batch])

        def embed(batch: _Batch) -> tuple[list[int], Callable[[], Tensor]]:
            features = to_device(backbone.pad(batch.rows), device)
            return batch.indices, begin_copy(_compute(variants, features, prefix))

        with backbone.evaluating():
            equal_lengths = self._check_network(variants)
            prefix = self._prefix(variants, len(sentences))
            batches = plan(prefix, equal_lengths)
            with in_threads(embed, batches, workers(backbone.network)) as computed:
                for indices, vectors in with_next_begun(computed):
                    columns = np.split(vectors().numpy(), ends, axis=1)
                    for result, rows_of_batch in zip(results, columns, strict=True):
                        result[indices] = rows_of_batch
                    if on_batch is not None:
                        on_batch(len(indices))
        for result in results:
            finite = np.isfinite(result).all(axis=1)
            if not finite.all():
                sentence = sentences[int(finite.argmin())]
                raise UserError(
                    f"received {backbone.dtype}, in which the vector of {sentence!r} is not "
                    "finite; expected float32, and finite weights",
                    argument="dtype",
                )
        return results

    def _prefix(
        self, variants: Sequence["SentenceEncoder"], count: int
    ) -> Prefix | None:
        """The computed tokens before ``count`` sentences, if no variant reads them."""
        kinds = {type(variant.pooling) for variant in variants}
        if (
            count < PREFIX_SENTENCES
            or self.wrapping is None
            or self.backbone.moving
            or self.wrapping.text == SLOT
            or not all(kind.over_tokens or kind is LastTokenPooling for kind in kinds)
        ):
            return None
        return Prefix.compute(self.backbone, self.wrapping.before)

    def _check_network(self, variants: Sequence["SentenceEncoder"]) -> bool:
        """Whether batches need equal lengths; warn of the findings of the sanity check.

        Rotary positions that follow the longest text need them, too. The check runs once for a
        backbone, when it encodes for the first time: on the device that was chosen by then, and at
        no cost where every vector is cached.
        """
        findings = find(self.backbone)
        if findings is None:
            return False
        is_template = self.template and not self.prompt
        warn_of_findings(self.backbone, () if is_template else variants)
        for variant in variants:
            check_pooling(findings, variant)
        return findings.equal_lengths or bool(self.backbone.moving)

    def _warn_of_equal_vectors(
        self,
        variants: Sequence["SentenceEncoder"],
        rows: Sequence[dict[str, list[int]]],
    ) -> None:
        """Warn if a decoder's vectors are those of one token in front of all sentences."""
        is_read = any(isinstance(each.pooling, FirstTokenPooling) for each in variants)
        if not is_read or len({row["input_ids"][0] for row in rows}) > 1:
            return
        if len({tuple(row["input_ids"]) for row in rows}) > 1 and is_causal(
            self.backbone
        ):
            warn(
                f"encoder: all vectors of {self.path} with pooling cls are equal: the first token "
                "of all sentences is the same, and reads none behind it; expected last_token"
            )

    @property
    def reading(self) -> dict[str, Any]:
        """How the network is read."""
        return {
            "layers": list(self.layers),
            "pooling": str(self.pooling),
            "max_length": self.max_length,
            "template": self.template,
            "sink_token": self.sink_token,
        }

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again, but for its token weights."""
        return {
            "path": self.path,
            "revision": self.backbone.revision,
            "dtype": str(self.backbone.dtype).removeprefix("torch."),
            **self.reading,
        }

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder (with its template), layers, pooling."""
        template = name_template(self.template)
        return {
            "encoder": f"{self.path}; template {template!r}" if template else self.path,
            "layers": name_layers(self.layers, self.num_layers),
            "pooling": str(self.pooling),
        }

    @property
    def identity(self) -> dict[str, Any]:
        """Digests and settings of the current state.

        Equal identities give equal vectors, up to rounding.
        """
        described = self.describe()
        del described["path"], described["revision"]
        weights = self.token_weights
        return {
            **self.backbone.digests,
            "token_weights": None
            if weights is None
            else digest_tensors({"weights": weights}),
            **described,
        }

    @property
    def pass_key(self) -> str:
        """Encoders with equal keys share a backbone and are computed in one pass."""
        return (
            f"{id(self.backbone)} {self.max_length} {self.template} {self.sink_token}"
        )

    def save(self, folder: str | Path) -> None:
        """Write a new folder that transformers and this class load.

        Raises:
            UserError: If the folder exists and is not empty.
        """
        tokenizer = self.backbone.tokenizer
        with quiet(), write_new_folder(folder) as temporary:
            network: Any = self.backbone.network
            network.save_pretrained(temporary)
            if tokenizer.is_fast:
                # The last batch left them; other programs would cut and pad like it.
                tokenizer.backend_tokenizer.no_truncation()
                tokenizer.backend_tokenizer.no_padding()
            tokenizer.save_pretrained(temporary)
            save_token_weights(temporary, self.token_weights)
            write_settings(temporary, self.reading)


def encode_counted(
    encoders: Sequence[Any],
    sentences: Sequence[str],
    on_batch: Callable[[int], Any] | None = None,
) -> list[Floats]:
    """Vectors of encoders that share a pass, ``(N, D)`` each.

    Args:
        encoders: Encoders with equal ``pass_key``.
        sentences: N sentences.
        on_batch: Called with the number of sentences after each batch.
    """
    first = encoders[0]
    if isinstance(first, SentenceEncoder):
        return first.encode_variants(encoders, sentences, on_batch=on_batch)
    # No other encoder shares a pass.
    own = first.embed if isinstance(first, Embedder) else first.encode
    vectors = own(sentences)
    if on_batch is not None:
        on_batch(len(sentences))
    return [vectors]


def _compute(
    variants: Sequence[SentenceEncoder],
    features: TokenFeatures,
    prefix: Prefix | None = None,
) -> Tensor:
    """Vectors of all variants from one pass, side by side: ``(B, D_1 + D_2 + ...)``."""
    top = max(max(variant.layers) for variant in variants)
    inputs = features
    if prefix is not None:
        inputs, features = prefix.add_to(features), prefix.cut(features)
    output = variants[0].backbone(inputs, top)
    columns = [variant.read(output, features) for variant in variants]
    return torch.cat(columns, dim=1)


def _same_weights(first_text: str, second_text: str) -> bool:
    """Whether two poolings have the same token weights."""
    first, second = make_pooling(first_text), make_pooling(second_text)
    return (first.name, first.options) == (second.name, second.options)
