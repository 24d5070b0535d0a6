"""Settings of a network's modules that stand in no state dict: epsilons, activations, hooks.

They follow from the configuration when a network is loaded, and enter its identity where they do
not any more.
"""

import copy
import os
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.encoders.source import quiet
from flowbert.io import digest, fingerprint_tensors

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
_KNOWN_PACKAGES = ("sentence_transformers", "torch", "transformers")
_MOST_KEPT = 16  # fresh networks whose settings are kept

Settings = dict[str, dict[str, Any]]

_fresh: OrderedDict[Any, Settings | None] = OrderedDict()
# What has no lasting name is told apart by its id in this process, and must live on.
_PROCESS = secrets.token_hex(8)
_unnamed: dict[int, object] = {}


def config_values(config: Any) -> dict[str, Any]:
    """Entries of a configuration that can change a vector."""
    values = config.to_dict().items()
    return {name: value for name, value in values if name not in _UNRELATED}


def changed_settings(network: nn.Module) -> Settings | None:
    """Settings of modules that differ from those of a fresh network of the same configuration.

    Args:
        network: A transformers network.

    Returns:
        For each module that differs, its attributes that do; None where there are none.
    """
    fresh = _fresh_settings(network)
    present = _settings(network)
    if fresh is None:
        return present
    changed = {}
    for name, own in present.items():
        if name == "pooler" and own["class"] == _name(nn.Identity):
            continue  # it was taken out
        usual = fresh.get(name, {})
        differing = {
            key: own.get(key)
            for key in sorted(own.keys() | usual.keys())
            if own.get(key) != usual.get(key)
        }
        if differing:
            changed[name] = differing
    removed = [name for name in fresh if name not in present]
    # A pooler that is not used is taken out when an encoder is loaded.
    if any(name.partition(".")[0] != "pooler" for name in removed):
        changed["removed"] = {"modules": removed}
    return changed or None


def constants(network: nn.Module) -> dict[str, Tensor]:
    """Buffers and other tensors that stand in no state dict, without those that a pass writes."""
    kept = network.state_dict().keys()
    varying = {
        name
        for name, module in network.named_modules()
        if changes_positions(getattr(module, "rope_type", ""))
    }
    tensors = dict(network.named_buffers())
    for name, module in network.named_modules():
        for attribute, value in vars(module).items():
            # Names that begin so are of what a pass keeps for the next one.
            if isinstance(value, Tensor) and not attribute.startswith("_"):
                tensors[f"{name}.{attribute}"] = value
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in kept and name.rpartition(".")[0] not in varying
    }


def changes_positions(rope_type: Any) -> bool:
    """Whether rotary embeddings of this kind (or kinds, by layer) are written in a pass."""
    return any(kind in str(rope_type) for kind in ("dynamic", "longrope"))


def module_settings(module: nn.Module) -> Settings:
    """Settings of any module and of those in it, by name."""
    return _settings(module)


class Carried:
    """A module of transformers networks on its way to another process; it arrives as the module.

    From the first pass on, such a network has hooks that are local functions, which do not pickle;
    they stay behind, and the next pass installs them anew. What they are to take out, transformers
    notes down when a network is made: where one arrives, one of its class and configuration is made
    without weights.

    Args:
        module: The module, whose tensors are not copied.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __reduce__(self) -> tuple[Any, ...]:
        tensors = (*self._module.parameters(), *self._module.buffers())
        other = copy.deepcopy(self._module, {id(each): each for each in tensors})
        for part in other.modules():
            vars(part).pop(_CAPTURING, None)
            hooks = part._forward_hooks
            for number in [key for key, hook in hooks.items() if _is_local(hook)]:
                del hooks[number]
        return _arrive, (other,)


def _arrive(module: nn.Module) -> nn.Module:
    from transformers import PreTrainedModel

    for part in module.modules():
        if isinstance(part, PreTrainedModel):
            _fresh_settings(part)
    return module


def _is_local(function: Any) -> bool:
    """Whether it is a function inside of another one of a known package."""
    return _is_known(function) and "<locals>" in getattr(function, "__qualname__", "")


def _fresh_settings(network: Any) -> Settings | None:
    """Settings of a new network of this class and configuration; None if none can be made."""
    config = getattr(network, "config", None)
    if not hasattr(config, "to_dict"):
        return None
    key = type(network), digest(config_values(config))
    if key not in _fresh:
        try:
            # On this device no weight is allocated; a few classes draw random numbers all the same.
            with quiet(), torch.random.fork_rng(devices=[]), torch.device("meta"):
                _fresh[key] = _settings(type(network)(copy.deepcopy(config)))
        except Exception:  # a class of someone else's with other arguments
            _fresh[key] = None
        if len(_fresh) > _MOST_KEPT:
            _fresh.popitem(last=False)
    return _fresh[key]


def _settings(network: nn.Module) -> Settings:
    configs: dict[int, Any] = {}
    return {
        name: _attributes(module, configs) for name, module in network.named_modules()
    }


def _attributes(module: nn.Module, configs: dict[int, Any]) -> dict[str, Any]:
    """Class, attributes and hooks of one module, as JSON values."""
    own: dict[str, Any] = {"class": _name(type(module))}
    if type(module).__name__.endswith("Dropout"):
        return own
    for name, value in list(vars(module).items()):  # some fill a cache when asked
        hidden = name.startswith("_") or name in _WITHOUT_EFFECT
        if not hidden and not isinstance(value, Tensor):  # a constant
            own[name] = _value(value, configs)
    for name in _HOOKS:
        # Transformers has hooks that take hidden states out, and change none.
        hooks = [hook for hook in vars(module)[name].values() if not _is_known(hook)]
        if hooks:
            own[name] = [_name(hook) for hook in hooks]
    return own


def _value(value: Any, configs: dict[int, Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _value(each, configs) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each, configs) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(str(each) for each in value)
    if isinstance(value, np.ndarray):
        return digest(str(value.dtype), list(value.shape), value.tobytes())
    if isinstance(value, Tensor):
        return None if value.is_meta else fingerprint_tensors({"": value})
    if isinstance(value, partial):  # such as gelu with approximate="tanh"
        return [
            _value(each, configs) for each in (value.func, value.args, value.keywords)
        ]
    if hasattr(value, "to_dict"):
        if id(value) not in configs:
            configs[id(value)] = digest(config_values(value))
        return configs[id(value)]
    return _name(value if callable(value) else type(value))


def _is_known(function: Any) -> bool:
    """Whether a package that does not change defines a function or class."""
    module = str(getattr(function, "__module__", ""))
    return module.partition(".")[0] in _KNOWN_PACKAGES


def _name(function: Any) -> str:
    """Name of a class or function; one that is not known gets a name of its own."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    name = f"{getattr(function, '__module__', '')}.{name}"
    if _is_known(function) and "<" not in name:
        return name
    _unnamed[id(function)] = function
    return f"{name}, number {id(function)} of process {os.getpid()} {_PROCESS}"
