"""A transformers network with its tokenizer: tokens, passes, positions, digests."""

import copy
import inspect
import json
import math
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from itertools import chain
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.encoders.base import KNOWN_DIGESTS
from flowbert.encoders.folders import Folder
from flowbert.encoders.sanity import Findings, sanity_check
from flowbert.encoders.shortcuts import allow_early_exit, lower_states
from flowbert.errors import UserError
from flowbert.io import digest, digest_tensors
from flowbert.numbers import is_count

NO_LIMIT = 4096
"""Default number of tokens of a sentence, for a network without a limit."""

MOST_TOKENS = 2**20
"""Largest number of tokens that may be set for a network without a limit."""

_CHANGING_MODE = Lock()  # not of a backbone, which is copied and pickled

# Entries of a configuration that do not change what the loaded weights compute.
_UNRELATED = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "_attn_implementation_autoset",
)


class PicklableNetwork(nn.Module):
    """A module whose pickle contains the weights of its transformers network."""

    def __getstate__(self) -> dict[str, Any]:
        """The state with the weights, as the folder may be on another machine.

        The hooks of transformers, local functions that do not pickle, are left out; the next pass
        installs them again.
        """
        weights = {id(x): x for x in (*self.parameters(), *self.buffers())}
        modules: Any = copy.deepcopy(self._modules, weights)  # shares the weights
        for part in nn.ModuleList(modules.values()).modules():
            vars(part).pop("_output_capturing_hooks_installed", None)
            for number, hook in list(part._forward_hooks.items()):
                if str(getattr(hook, "__module__", "")).startswith("transformers."):
                    del part._forward_hooks[number]
        return vars(self) | {"_modules": modules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        from transformers import PreTrainedModel

        # What its hooks capture, transformers notes where a network is made.
        for part in self.modules():
            if isinstance(part, PreTrainedModel):
                empty = type(part).__new__(type(part))
                PreTrainedModel.__init__(empty, copy.deepcopy(part.config))


class Backbone(PicklableNetwork):
    """Network and tokenizer, shared by all variants of an encoder.

    Args:
        network: A transformers network that returns hidden states.
        tokenizer: Its tokenizer.
        path: Folder or hub name.
        revision: Commit on the hub.
        folder: Settings of its folder.

    Attributes:
        dim: Size of a hidden state.
        num_layers: Number of blocks.
        inputs: Names of the token features that the network takes.
        positions: Largest number of tokens of a text; None without a limit.
        options: ``dtype`` of quantized weights and ``device_map``, if it was loaded with them.
    """

    network: Any

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Any,
        path: str = "",
        revision: str | None = None,
        folder: Folder = Folder(),  # noqa: B008  it cannot be changed
    ) -> None:
        super().__init__()
        config: Any = network.config
        self.network = network
        self.tokenizer = tokenizer
        self.path = path
        self.revision = revision
        self.folder = folder
        self.options: dict[str, Any] = {}
        self.dim: int = config.hidden_size
        self.num_layers: int = config.num_hidden_layers
        self.positions = _count_positions(network)
        self._users = 0  # of evaluation mode
        self.inputs = frozenset(inspect.signature(network.forward).parameters)
        if hasattr(network, "set_attention_type"):
            # BigBird does so itself, for good, when it first sees a short sentence.
            self.network.set_attention_type("original_full")
        allow_early_exit(self.network.base_model)
        # Position 0 is the first token of every sentence.
        tokenizer.padding_side = "right"

    def like(self, network: Any = None, tokenizer: Any = None) -> "Backbone":
        """A copy with another network, or another tokenizer of the same vocabulary."""
        network, tokenizer = network or self.network, tokenizer or self.tokenizer
        copied = Backbone(network, tokenizer, self.path, self.revision)
        copied.options = self.options
        return copied

    @property
    def device(self) -> torch.device:
        """Device of the weights, those that accelerate offloaded left out."""
        devices = (x.device for x in chain(self.parameters(), self.buffers()))
        return next((x for x in devices if x.type != "meta"), torch.device("meta"))

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.parameters()).dtype

    @property
    def is_placed(self) -> bool:
        """Whether a device map places the weights, on several devices or outside of memory."""
        return "device_map" in self.options

    def _apply(self, fn: Any, recurse: bool = True) -> "Backbone":
        """Move or convert the weights, unless a device map places them."""
        if self.is_placed:
            return self
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        if self.is_placed:
            raise UserError(
                "is not copied, pickled or exported with a device_map; expected none",
                argument="encoder",
            )
        return super().__getstate__()

    @property
    def has_pooler(self) -> bool:
        """Whether the network has a pooler that was not removed."""
        pooler = getattr(self.network, "pooler", None)
        return not (pooler is None or isinstance(pooler, nn.Identity))

    def remove_pooler(self) -> None:
        """Do not compute the pooler, because it is not trained or was initialized at random."""
        if self.has_pooler:
            self.network.pooler = nn.Identity()  # some call it even where it is None

    @property
    def is_decoder(self) -> bool:
        """Whether tokens do not depend on later tokens, and no [CLS] precedes them."""
        return self.tokenizer.cls_token_id is None and self.findings.causal

    def check_length(self, length: int) -> int:
        """Check a number of tokens, special ones included; 0 becomes the number of positions.

        Raises:
            UserError: If the network has fewer positions, or no token of text would fit.
        """
        length = length or self.positions or NO_LIMIT
        least = self.tokenizer.num_special_tokens_to_add() + 1
        most = self.positions or MOST_TOKENS
        if not least <= length <= most:
            raise UserError(
                argument="max_length", received=length, expected=f"{least} to {most}"
            )
        return length

    def pad(self, rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        """Token features of a batch, padded to its longest sentence: ``(B, T)`` on the CPU."""
        # tokenizer.pad does the same in 20 times the time, a third of an encoding on a GPU.
        lengths = np.array([len(row["input_ids"]) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        padding = {
            "input_ids": self.tokenizer.pad_token_id,
            "token_type_ids": self.tokenizer.pad_token_type_id,
            "special_tokens_mask": 1,
        }
        features = {"attention_mask": torch.from_numpy(mask.astype(np.int64))}
        for name in [name for name in rows[0] if name not in features]:
            padded = np.full(mask.shape, padding.get(name, 0), dtype=np.int64)
            padded[mask] = np.concatenate([row[name] for row in rows])
            features[name] = torch.from_numpy(padded)
        return features

    def forward(self, features: Mapping[str, Any], top: int | None = None) -> Any:
        """Output of the network for token features, with its hidden states.

        Args:
            features: Token features by name, each ``(B, T)``, and options of the network.
            top: Highest layer that is used; layers above it may be left out. None for all.
        """
        top = self.num_layers if top is None else top
        is_lower = top < self.num_layers and not torch.compiler.is_compiling()
        # States of blocks on several devices are brought together at the end of a pass.
        if is_lower and not self.is_placed and self.findings.early_exit:
            states = lower_states(partial(self.compute, features), top)
            return SimpleNamespace(hidden_states=states)
        output = self.compute(features, output_hidden_states=True)
        # Of some networks it is the last block before its layer norm (tie_last_hidden_states).
        output.hidden_states = (*output.hidden_states[:-1], output.last_hidden_state)
        return output

    def compute(
        self, features: Mapping[str, Any], output_hidden_states: bool = False
    ) -> Any:
        """Output of the network as it is, without prediction layers."""
        features = {name: x for name, x in features.items() if name in self.inputs}
        # Decoders keep keys and values for generation.
        if "use_cache" in self.inputs:
            features = {"use_cache": False} | features
        return self.network.base_model(
            **features, output_hidden_states=output_hidden_states, return_dict=True
        )

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Context in evaluation mode without gradients and autocast; threads may share it."""
        with _CHANGING_MODE:
            if self._users == 0:
                self._was_training = self.training
                self.eval()
            self._users += 1
        try:
            with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
                yield
        finally:
            with _CHANGING_MODE:
                self._users -= 1
                if self._users == 0:
                    self.train(self._was_training)

    @cached_property
    def findings(self) -> Findings:
        """Findings of the sanity check.

        It runs when sentences are encoded for the first time: on the device of the network at that
        time, and not at all if every vector is cached.
        """
        with self.evaluating():
            return sanity_check(self)

    def digests(self, with_pooler: bool) -> dict[str, str]:
        """Digests of weights, configuration and tokenizer, in their current state.

        Args:
            with_pooler: Whether the digest includes the weights of the pooler.
        """
        known, key = KNOWN_DIGESTS.get(), (id(self), with_pooler)
        if known is not None and key in known:
            return dict(known[key][1])
        config = self.network.config.to_dict()
        for name in _UNRELATED:
            config.pop(name, None)
        weights = _Weights(self.network)
        if not with_pooler:
            for name in [x for x in weights if x.startswith("pooler.")]:
                del weights[name]
        digests = {
            "weights": digest_tensors(weights),
            "config": digest(config),
            "tokenizer": _tokenizer_digest(self.tokenizer),
        }
        if known is not None:
            known[key] = self, digests  # an id may be that of another one later
        return digests


class _Weights(UserDict[str, Tensor]):
    """Weights of a network by name; those that accelerate offloaded are read one at a time."""

    def __init__(self, network: Any) -> None:
        super().__init__(network.state_dict())
        self._network = network

    def __getitem__(self, name: str) -> Tensor:
        if not self.data[name].is_meta:
            return self.data[name]
        from accelerate.utils import align_module_device

        place, _, own = name.rpartition(".")
        module = self._network.get_submodule(place)
        with align_module_device(module, "cpu"):
            weight: Tensor = getattr(module, own)
        return weight


def _tokenizer_digest(tokenizer: Any) -> str:
    """Digest of the current vocabulary, rules and special tokens of a tokenizer."""
    content = {
        "class": type(tokenizer).__name__,
        "special": tokenizer.special_tokens_map,
    }
    if tokenizer.truncation_side != "right":
        content["truncation_side"] = tokenizer.truncation_side
    if not tokenizer.is_fast:
        content["vocabulary"] = tokenizer.get_vocab()
        content["options"] = tokenizer.init_kwargs
        return digest(content)
    return digest(content, _rules_digest(tokenizer.backend_tokenizer.to_str()))


@lru_cache(maxsize=8)
def _rules_digest(text: str) -> str:
    """Digest of vocabulary and rules, without state that calls or training mode change."""
    rules = json.loads(text)
    del rules["truncation"], rules["padding"]
    return digest(rules)


def _count_positions(network: Any) -> int | None:
    """Number of positions of a table in the network, or else of the configuration."""
    for name, module in network.named_modules():
        # GPT-2 calls its table wpe, OPT embed_positions.
        leaf = name.rpartition(".")[2]
        if isinstance(module, nn.Embedding) and ("position" in leaf or leaf == "wpe"):
            # RoBERTa and its relatives count from the position after that of padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - int(getattr(module, "offset", first))
    # Rotary positions of texts longer than those of the training follow the longest of a batch.
    config = network.config
    trained = getattr(config, "original_max_position_embeddings", None)
    named = trained or getattr(config, "max_position_embeddings", None)
    return named if is_count(named, 1, math.inf) else None  # XLNet says -1
