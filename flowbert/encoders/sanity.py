"""Sanity check of a network and its tokenizer with two sentences, before it encodes.

A vector has to follow from its sentence alone; in some networks padding changes it.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flowbert.encoders.shortcuts import Prefix, lower_states
from flowbert.errors import UserError, first_line
from flowbert.precision import precision_settings

_CHECKED = (
    "A café isn't far.",
    "The children sing while a man plays the guitar in front of the house.",
)
# Of a hidden state in one layer. Independent errors add up like a random walk: n roundings in each
# layer to sqrt(n (L + 1)) u, two computations differ by at most twice that (Higham and Mary, A New
# Approach to Probabilistic Rounding Error Analysis, 2019, https://doi.org/10.1137/18M1226312).
_ROUNDINGS = 16
# Large weights amplify roundings (6e-5 in float32); padding moves ConvBERT by 0.08 (cosine 0.997).
_LEAST_TOLERANCE = 1e-3


class Findings(NamedTuple):
    """Results of the sanity check of a network.

    Args:
        equal_lengths: Whether only sentences of equal length may share a batch.
        causal: Whether tokens depend on none behind them.
        early_exit: Whether the inputs of its blocks are its hidden states, so that a pass may end
            below the last one.
        continues: Whether it computes the rest of a text from keys and values of its first tokens.
    """

    equal_lengths: bool = False
    causal: bool = False
    early_exit: bool = False
    continues: bool = False


def sanity_check(backbone: Any) -> Findings:
    """Encode two sentences of different length alone and together, and the beginning of one.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.

    Returns:
        The findings; the default ones where the vocabulary has no token of the sentences.

    Raises:
        UserError: If the network cannot be computed, or does not give each token a vector in each
            layer.
    """
    columns = backbone.tokenizer(list(_CHECKED), return_attention_mask=True)
    names = [name for name in columns if name in backbone.inputs]
    length = backbone.check_length(0)
    short, long = (
        {name: columns[name][row][:length] for name in names} for row in (0, 1)
    )
    if not short["input_ids"]:
        return Findings()
    begin = {name: row[:3] for name, row in long.items()}
    together = _states(backbone, [short, long])
    alone = [_states(backbone, [row]) for row in (short, long)]
    first = _states(backbone, [begin])

    def compute_rest() -> Sequence[Tensor]:
        prefix = Prefix.compute(backbone, begin["input_ids"])
        output = backbone(prefix.add_to(_features(backbone, [long, long])))
        states: Sequence[Tensor] = output.hidden_states
        return states

    def compute_lower() -> Any:
        features = _features(backbone, [short, long])
        return lower_states(
            partial(backbone.compute, features), backbone.num_layers - 1
        )

    dtype = backbone.dtype
    if precision_settings().get("float32_matmul_precision") != "highest":
        dtype = torch.bfloat16  # or TensorFloat-32, in which float32 is multiplied
    rounding = math.sqrt(_ROUNDINGS * (backbone.num_layers + 1))
    tolerance = max(rounding * torch.finfo(dtype).eps, _LEAST_TOLERANCE)
    padded = [together[:, [row], : x.shape[2]] for row, x in enumerate(alone)]
    causal = not _difference(first, alone[1][:, :, :3]) > tolerance
    rest = alone[1][:, :, 3:]
    return Findings(
        equal_lengths=any(x > tolerance for x in map(_difference, padded, alone)),
        causal=causal,
        early_exit=_agrees(compute_lower, together[:-1], 0),
        continues=causal and _agrees(compute_rest, rest, tolerance),
    )


def _agrees(
    compute: Callable[[], Sequence[Tensor]], expected: Tensor, tolerance: float
) -> bool:
    """Whether another way to compute hidden states works, and gives those that are expected."""
    try:
        return _difference(_stack(compute()), expected) <= tolerance
    except Exception:  # modelling code raises a dozen types
        return False


def _states(backbone: Any, rows: list[dict[str, list[int]]]) -> Tensor:
    """Hidden states of a batch, ``(L + 1, B, T, D)``, float32, on the CPU."""
    features = _features(backbone, rows)
    layers = backbone.num_layers + 1
    try:
        states = _stack(backbone(features).hidden_states)
        if states.shape != (layers, *features["input_ids"].shape, backbone.dim):
            raise ValueError(f"hidden states of shape {tuple(states.shape)}")
    except Exception as error:  # modelling code raises a dozen types
        raise UserError(
            f"received {backbone.path!r} of type {backbone.network.config.model_type!r}, which "
            f"does not compute a vector of size {backbone.dim} of each token and layer: "
            f"{first_line(error)}",
            argument="encoder",
        ) from error
    return states


def _stack(states: Sequence[Tensor]) -> Tensor:
    """Hidden states as one tensor, ``(L + 1, B, T, D)``, float32, on the CPU."""
    return torch.stack([state.float().cpu() for state in states])


def _features(backbone: Any, rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    padded = backbone.pad(rows)
    return {name: values.to(backbone.device) for name, values in padded.items()}


def _difference(found: Tensor, expected: Tensor) -> float:
    """Largest relative difference of two computations of hidden states, in any layer."""
    norms = expected.norm(dim=3).clamp_min(torch.finfo().tiny)
    relative = (found - expected).norm(dim=3) / norms
    return float(relative.square().mean(dim=(1, 2)).sqrt().max())
