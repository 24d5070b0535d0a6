"""Settings, hooks and constants of modules, which decide vectors as weights do."""

import copy
import os
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flowbert.encoders.source import quiet
from flowbert.io import digest, digest_tensors

# Entries of a configuration that do not change what the loaded weights compute.
_UNRELATED = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "_attn_implementation_autoset",
)
DROPOUT_RATES = ("attention_dropout", "dropout", "dropout_prob")
"""Attributes of modules that are rates of dropout, where an attention holds its rate itself."""

# Attributes of modules that do not change a vector in evaluation.
_WITHOUT_EFFECT = (
    *DROPOUT_RATES,
    "gradient_checkpointing",
    "name_or_path",
    "training",
    "warnings_issued",
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
# By which transformers knows that its hooks are there.
_CAPTURING = "_output_capturing_hooks_installed"
_KNOWN_PACKAGES = ("flowbert", "sentence_transformers", "torch", "transformers")

# Objects without a lasting name are identified by their id in this process, and kept alive.
_PROCESS = f"{os.getpid()} {secrets.token_hex(8)}"
_unnamed: dict[int, object] = {}


def config_values(config: Any) -> dict[str, Any]:
    """Entries of a configuration that can change a vector."""
    values = config.to_dict().items()
    return {name: value for name, value in values if name not in _UNRELATED}


def module_state(network: nn.Module) -> str:
    """Digest of classes, attributes, hooks and constants of all modules, as they are now.

    It stays the same in training and while the network computes. Functions and classes of other
    packages than torch, transformers and sentence-transformers are equal only to themselves.
    """
    modules = []
    for name, module in network.named_modules():
        settings: dict[str, Any] = {"class": _name(type(module))}
        if not type(module).__name__.endswith("Dropout"):
            for attribute, value in list(vars(module).items()):
                hidden = attribute.startswith("_") or attribute in _WITHOUT_EFFECT
                if not hidden and not isinstance(value, Tensor):
                    settings[attribute] = _describe(value)
        for kind in _HOOKS:
            # The hooks of transformers and of this package change no hidden states.
            hooks = [
                hook for hook in vars(module)[kind].values() if not _is_known(hook)
            ]
            settings[kind] = [_name(hook) for hook in hooks]
        modules.append((name, settings))
    return digest(modules, digest_tensors(_constants(network)))


def _constants(network: nn.Module) -> dict[str, Tensor]:
    """Buffers and other tensors that no state dict has, without those that a pass writes."""
    kept = network.state_dict().keys()
    constants = {}
    for name, module in network.named_modules():
        if changes_positions(getattr(module, "rope_type", "")):
            continue
        for attribute, value in {**vars(module), **module._buffers}.items():
            # Names with an underscore are of what a pass keeps for the next one.
            if isinstance(value, Tensor) and not attribute.startswith("_"):
                constants[f"{name}.{attribute}".lstrip(".")] = value
    return {name: value for name, value in constants.items() if name not in kept}


def changes_positions(rope_type: Any) -> bool:
    """Whether rotary embeddings of this kind (or kinds, by layer) are written in a pass."""
    return any(kind in str(rope_type) for kind in ("dynamic", "longrope"))


def _describe(value: Any) -> Any:
    """A JSON value of an attribute."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _describe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(each) for each in value]
    if isinstance(value, partial):  # such as gelu with approximate="tanh"
        return _describe([value.func, value.args, value.keywords])
    return _name(value if callable(value) else type(value))


def _is_known(function: Any) -> bool:
    """Whether a package that does not change defines a function or class."""
    module = str(getattr(function, "__module__", ""))
    return module.partition(".")[0] in _KNOWN_PACKAGES


def _name(function: Any) -> str:
    """Name of a class or function; one of another package gets a unique name."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    name = f"{getattr(function, '__module__', '')}.{name}"
    if _is_known(function) and "<" not in name:
        return name
    _unnamed[id(function)] = function
    return f"{name}, number {id(function)} of process {_PROCESS}"


def remove_captures(module: nn.Module) -> None:
    """Remove the hooks of transformers, local functions that do not pickle.

    The next pass installs them again.
    """
    for part in module.modules():
        vars(part).pop(_CAPTURING, None)
        for number, hook in list(part._forward_hooks.items()):
            if _is_known(hook) and "<locals>" in getattr(hook, "__qualname__", ""):
                del part._forward_hooks[number]


def note_captures(module: nn.Module) -> None:
    """Let transformers note what its hooks capture in networks that another process has made.

    It does so when a network is made: here one of the same class, without weights.
    """
    from transformers import PreTrainedModel

    for part in module.modules():
        if isinstance(part, PreTrainedModel):
            # On this device no weight is allocated; a few classes draw random numbers all the same.
            with quiet(), torch.random.fork_rng(devices=[]), torch.device("meta"):
                type(part)(copy.deepcopy(part.config))
