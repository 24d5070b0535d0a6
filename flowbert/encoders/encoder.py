"""Sentences to vectors through a transformers network: layers averaged, tokens pooled."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flowbert.arrays import Floats
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.base import Embedder
from flowbert.encoders.checkpoint import load_backbone
from flowbert.encoders.folders import SETTINGS_FILE, quiet, save_token_weights
from flowbert.encoders.layers import (
    Layers,
    LayerSpec,
    average_layers,
    name_layers,
)
from flowbert.encoders.passes import compute, encode_together
from flowbert.encoders.pooling import (
    NetworkPooling,
    TokenFeatures,
    make_pooling,
)
from flowbert.encoders.reading import Reading, resolve
from flowbert.encoders.template import name_template
from flowbert.encoders.tokenization import Tokenization
from flowbert.io import digest_tensors, write_json, write_new_folder
from flowbert.progress import tell


class SentenceEncoder(Embedder, nn.Module):
    r"""One vector per sentence: :math:`u = \mathrm{pool}(\frac{1}{|S|} \sum_{k \in S} h_k)`.

    A frozen encoder stays in evaluation mode without gradients, also inside of a module in training
    mode, and ignores mixed precision, so that equal sentences give equal vectors. With
    ``frozen=False`` it trains like any module.

    Arguments that are None come from ``reading``, or else from the folder (``flowbert.json`` of an
    encoder trained with flowbert, or the files of sentence-transformers). Otherwise they are the
    last layer, ``mean``, 128 tokens (512 for a decoder) and no template.

    Args:
        path: A folder, a run folder with a trained encoder, a hub name (``owner/name@revision``
            too), ``builtin-sample``, or a loaded backbone.
        reading: A reading, whose entries replace those of the folder.
        revision: Commit, branch or tag on the hub; like ``dtype`` and ``device_map``, ignored for a
            loaded backbone.
        layers: Layers to average: a name or numbers, see :func:`resolve_layers`.
        pooling: See :class:`~flowbert.encoders.pooling.Pooling`. With a template, None means
            ``last_token``, and ``mean`` with ``echo``.
        max_length: Number of tokens, special ones included, after which a sentence is cut; 0 for
            the number of positions of the network.
        dtype: Precision of the computation: ``float32``, ``float16``, ``bfloat16`` or
            ``float64``; or ``8bit`` or ``4bit``, which bitsandbytes computes.
        device_map: Devices of the modules for a network that does not fit one device: ``auto``, or
            what else ``from_pretrained`` takes. It then stays there, and cannot be trained.
        template: Text around every sentence, such as ``This sentence : "{}" means in one word:"``,
            or a name of :data:`~flowbert.encoders.template.TEMPLATES`, or ``chat`` or ``chat:TEXT``
            for a chat as the tokenizer writes it, saved as its text. Only ``last_token`` and
            ``cls`` pool its tokens. A template that ends in its only ``{}`` is a prompt, as in
            sentence-transformers, and its tokens are pooled, too.
        sink_token: Token before every sentence, which attracts the attention that the first word
            would attract, and is not pooled. None means, in a decoder without a template, the token
            that the tokenizer writes there, else ``<|endoftext|>``, BOS or EOS; empty for no token.
        frozen: Whether the weights are frozen.
        count_over: Sentences whose tokens ``idf`` and ``sif`` count, if no weights are saved.
        token_weights: Saved :attr:`token_weights`.

    Attributes:
        backbone: Network and tokenizer, shared by all readings of them.
        reading: Layers, pooling, length and so on; :meth:`read` changes them.
        pooling: Pooling over tokens.
        tokenization: Sentences to token features.
        by_layer: Whether the cache stores the vectors of single layers, which are averaged when
            they are read and so serve all sets of layers; only with a linear pooling.
        log_token_factors: Table of the pooling ``learned_weights``, ``(V, 1)``; None if it is not
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
        reading: Reading | None = None,
        *,
        revision: str | None = None,
        layers: LayerSpec | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        device_map: str | Mapping[str, Any] | None = None,
        template: str | None = None,
        sink_token: str | None = None,
        frozen: bool = True,
        count_over: Sequence[str] = (),
        token_weights: Tensor | None = None,
    ) -> None:
        super().__init__()
        is_shared = isinstance(path, Backbone)
        if isinstance(path, Backbone):
            backbone = path
        else:
            is_changed = layers is not None or pooling is not None
            backbone = load_backbone(
                str(path),
                revision,
                dtype,
                device_map,
                is_changed=is_changed,
                frozen=frozen,
            )
        self.backbone = backbone
        self.path = backbone.path
        self.num_layers = backbone.num_layers
        folder = backbone.folder
        self.reading = resolve(
            backbone,
            folder.reading if reading is None else vars(reading),
            {
                "layers": layers,
                "pooling": pooling,
                "max_length": max_length,
                "template": template,
                "sink_token": sink_token,
            },
        )
        self.pooling = make_pooling(self.reading.pooling)
        self.frozen = frozen
        self.by_layer = False
        self.tokenization = Tokenization(backbone, self.reading)
        if token_weights is None and self.reading.pooling == folder.reading["pooling"]:
            token_weights = folder.token_weights
        self.pooling.bind(self.tokenization, count_over, token_weights)
        self.dim = self.pooling.output_dim(backbone.dim)
        self.log_token_factors = None if frozen else self.pooling.train_weights()
        is_fresh = reading is None and frozen and template is None
        if is_fresh and not self.template and backbone.is_decoder:
            tell(f"{self.path}: a decoder without a template; prompteol may be better")
        self._freeze(is_shared)

    def _freeze(self, is_shared: bool) -> None:
        """Freeze the weights, or make them ready for a training."""
        if self.frozen:
            self.requires_grad_(False)
        elif not (is_shared or isinstance(self.pooling, NetworkPooling)):
            self.backbone.remove_pooler()
        if self.frozen or not is_shared:
            self.train(not self.frozen)
        else:  # a backbone that others use stays in its mode
            self.training = self.backbone.training

    def read(
        self,
        *,
        backbone: Backbone | None = None,
        count_over: Sequence[str] = (),
        frozen: bool | None = None,
        **changes: Any,
    ) -> "SentenceEncoder":
        """An encoder with the same network and another reading.

        An unchanged pooling keeps its token weights, and the pooling of the folder has the weights
        saved there, without counting.

        Args:
            backbone: Another network, or tokenizer, of the same vocabulary.
            count_over: Sentences whose tokens another pooling counts.
            frozen: Whether the weights are frozen; None for no change.
            **changes: ``layers``, ``pooling``, ``max_length``, ``template``, ``sink_token``, as in
                the constructor; None changes nothing.

        Raises:
            UserError: If an entry does not fit the network.
        """
        backbone = self.backbone if backbone is None else backbone
        reading = resolve(backbone, vars(self.reading), changes)
        is_kept = reading.pooling == self.reading.pooling
        return SentenceEncoder(
            backbone,
            reading,
            frozen=self.frozen if frozen is None else frozen,
            count_over=count_over,
            token_weights=self.pooling.weights if is_kept else None,
        )

    def as_saved(self) -> "SentenceEncoder":
        """The same network with the layers, the pooling and the template of its folder."""
        return self.read(**{**self.backbone.folder.reading, "max_length": None})

    @property
    def layers(self) -> Layers:
        """Indices of the layers that are averaged."""
        return self.reading.layers

    @property
    def max_length(self) -> int:
        """Number of tokens, special ones included, after which a sentence is cut."""
        return self.reading.max_length

    @property
    def template(self) -> str:
        """Text around every sentence; empty for none."""
        return self.reading.template

    @property
    def sink_token(self) -> str:
        """Token before every sentence that is not pooled; empty for no token."""
        return self.reading.sink_token

    @property
    def is_on_disk(self) -> bool:
        """Whether its folder has these weights, which a training changes."""
        return self.frozen

    @property
    def parts(self) -> list["SentenceEncoder"]:
        """The encoders whose cached vectors are averaged: itself, or one for each layer."""
        if not self.by_layer or not self.pooling.linear:
            return [self]
        return [self.read(layers=layer) for layer in self.reading.layers]

    @property
    def token_weights(self) -> Tensor | None:
        """Weight of each token of the vocabulary, ``(V,)``; None if the pooling has no weights."""
        return self.pooling.weights

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.backbone.device

    def train(self, mode: bool = True) -> "SentenceEncoder":
        """Set training mode, except for a frozen backbone."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Token features of one batch, padded to its longest sentence: ``(B, T)`` on the CPU."""
        return self.backbone.pad(list(self.tokenization.rows(sentences)))

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """Number of tokens of each sentence, special ones included, after truncation."""
        return [len(row["input_ids"]) for row in self.tokenization.rows(sentences)]

    def forward(self, *chunks: TokenFeatures) -> Tensor:
        """Embed token features, each ``(b, t)``: ``(B, D)`` for B sentences in all, float32.

        Args:
            *chunks: Features of :meth:`tokenize`.
        """
        with self.backbone.evaluating() if self.frozen else nullcontext():
            parts = [compute([self], x) for x in chunks]
        return torch.cat(parts)

    def pool(self, output: Any, features: TokenFeatures) -> Tensor:
        """Vectors of a pass, ``(B, D)``, float32.

        Args:
            output: Output of the network, with hidden states.
            features: Its token features, each ``(B, T)``.
        """
        if isinstance(self.pooling, NetworkPooling):
            pooled: Tensor = output.pooler_output.float()
            return pooled
        tokens = average_layers(output.hidden_states, self.layers)
        mask = features["attention_mask"].bool()
        # Tokens of a template, and a sink.
        if self.pooling.over_tokens and "special_tokens_mask" in features:
            mask = mask & (features["special_tokens_mask"] == 0)
        return self.pooling.pool(tokens, mask, features["input_ids"])

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
            batch_tokens: Number of tokens of a batch, padding included; None for 512 on a CPU (1024
                in half precision), and 16384 on other devices.
        """
        return encode_together([self], sentences, on_batch, batch_tokens)[0]

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again, except for its token weights."""
        return {
            "path": self.path,
            "revision": self.backbone.revision,
            "dtype": str(self.backbone.dtype).removeprefix("torch."),
            **self.backbone.options,
            **self.reading.as_json(),
        }

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, template, sink_token, layers, pooling.

        The sink is empty if the reading implies it, and ``none`` if the reading would imply one.
        """
        reading = self.reading
        implied = resolve(self.backbone, vars(reading), {"pooling": reading.pooling})
        is_implied = reading.sink_token == implied.sink_token
        return {
            "encoder": self.path,
            "template": name_template(reading.template, self.backbone.tokenizer),
            "sink_token": "" if is_implied else reading.sink_token or "none",
            "layers": name_layers(reading.layers, self.num_layers),
            "pooling": reading.pooling,
        }

    @property
    def identity(self) -> dict[str, Any]:
        """Digests and reading of the current state.

        Equal identities give equal vectors, up to rounding.
        """
        with_pooler = isinstance(self.pooling, NetworkPooling)
        digests = self.backbone.digests(with_pooler)
        identity = {**digests, "token_weights": None, **self.describe()}
        for name in ("path", "revision", "device_map"):
            identity.pop(name, None)
        if self.pooling.weights is not None:
            weights = {"weights": self.pooling.weights}
            identity["token_weights"] = digest_tensors(weights)
        return identity

    @property
    def backbone_key(self) -> str:
        """Encoders with equal keys share a backbone and are computed in one pass."""
        reading = self.reading
        return f"{id(self.backbone)} {reading.max_length} {reading.template} {reading.sink_token}"

    def save(self, folder: str | Path) -> None:
        """Write a new folder that transformers and this class load.

        Raises:
            UserError: If the folder exists and is not empty.
        """
        with quiet(), write_new_folder(folder) as temporary:
            self.backbone.network.save_pretrained(temporary)
            self.backbone.tokenizer.save_pretrained(temporary)
            save_token_weights(temporary, self.pooling.weights)
            write_json(temporary / SETTINGS_FILE, self.reading.as_json())


def encode_counted(
    encoders: Sequence[Any],
    sentences: Sequence[str],
    on_batch: Callable[[int], Any] | None = None,
) -> list[Floats]:
    """Embed sentences with encoders that share a pass: ``(N, D)`` each.

    Args:
        encoders: Encoders with equal ``backbone_key``.
        sentences: N sentences.
        on_batch: Called with the number of sentences after each batch.
    """
    first = encoders[0]
    if isinstance(first, SentenceEncoder):
        return encode_together(encoders, sentences, on_batch)
    # No other encoder shares a pass.
    vectors = first.embed(sentences)
    if on_batch is not None:
        on_batch(len(sentences))
    return [vectors]
