"""Sanity check of a network and its tokenizer with two sentences, before it encodes.

A vector has to follow from its sentence alone. In some networks padding or other sentences of the
batch change it, some draw random numbers in evaluation, and in some one token outweighs all others.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flowbert.encoders.layers import average_layers
from flowbert.encoders.pooling import NetworkPooling
from flowbert.errors import UserError, first_line, warn

_CHECKED = (
    "A café isn't far.",
    "The children sing while a man plays the guitar in front of the house.",
)
_ROUNDINGS = 16  # of a hidden state in one layer
# Large weights amplify roundings (6e-5 in float32); padding moves ConvBERT by 0.08 (cosine 0.997).
_LEAST_TOLERANCE = 1e-3
# Norm of a token by the median; a mean of that many tokens is close to it.
_OUTLIER_RATIO = 20


class Findings(NamedTuple):
    """Results of the sanity check of a network.

    Args:
        equal_lengths: Whether only sentences of equal length may share a batch.
        features: Token features of both sentences, each ``(2, T)``, on the CPU.
        states: Hidden states of both, L + 1 of ``(2, T, D)``, float32, on the CPU.
        causal: Whether tokens depend on none behind them.
    """

    equal_lengths: bool
    features: dict[str, Tensor]
    states: Sequence[Tensor]
    causal: bool = False


def sanity_check(backbone: Any) -> Findings | None:
    """Encode two sentences of different length alone, together, and again.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.

    Returns:
        The findings; None where the vocabulary has no token of the sentences.

    Raises:
        UserError: If the network cannot be computed, does not give each token a vector in each
            layer, or if a sentence's vectors differ by more than rounding.
    """
    options = {"truncation": True, "max_length": backbone.choose_length(0)}
    columns = backbone.tokenizer(list(_CHECKED), return_attention_mask=True, **options)
    names = [name for name in columns if name in backbone.inputs]
    short, long = ({name: columns[name][row] for name in names} for row in (0, 1))
    if not short["input_ids"]:
        return None
    cut = {name: values[: len(short["input_ids"])] for name, values in long.items()}
    first = _states(backbone, [short])
    together = _states(backbone, [short, long])
    alone = [_states(backbone, [row]) for row in (short, long)]
    findings = Findings(False, backbone.pad([short, long]), together.unbind())
    if not together.isfinite().all():
        return findings  # the error names the sentence to encode
    tolerance, reason = tolerance_of(backbone), ""
    if differ(first, alone[:1], tolerance):
        reason = "gives a sentence another vector the next time"
    elif differ(together, alone, tolerance):
        findings = findings._replace(equal_lengths=True)
        both = [alone[0], _states(backbone, [cut])]
        if differ(_states(backbone, [short, cut]), both, tolerance):
            reason = "mixes the sentences of a batch"
    first = _states(backbone, [{name: row[:3] for name, row in long.items()}])
    causal = not differ(first, [alone[1][:, :, :3]], tolerance)
    if reason:
        raise UserError(
            f"received {backbone.path!r}, which {reason}; expected a network whose vectors depend "
            "on the sentence alone",
            argument="encoder",
        )
    return findings._replace(causal=causal)


def _states(backbone: Any, rows: list[dict[str, list[int]]]) -> Tensor:
    """Hidden states of a batch, ``(L + 1, B, T, D)``, float32, on the CPU."""
    named = f"{backbone.path!r} of type {backbone.network.config.model_type!r}"
    features = {
        name: value.to(backbone.device) for name, value in backbone.pad(rows).items()
    }
    try:
        states = backbone(features).hidden_states
    except Exception as error:  # modelling code raises a dozen types
        raise UserError(
            f"received {named}, which cannot be computed: {first_line(error)}",
            argument="encoder",
        ) from error
    expected = (*features["input_ids"].shape, backbone.dim)
    shapes = [tuple(state.shape) for state in states or ()]
    if shapes != [expected] * (backbone.num_layers + 1):
        raise UserError(
            f"received {named}, whose layers do not give each token a vector of size "
            f"{backbone.dim}; expected a text encoder such as BERT",
            argument="encoder",
        )
    return torch.stack([state.float().cpu() for state in states])


def tolerance_of(backbone: Any) -> float:
    r"""Largest relative difference of hidden states by rounding.

    In half precision independent errors add up like a random walk: n roundings in each layer to
    :math:`\sqrt{n (L + 1)} u`. Two computations differ by at most twice that.

    References:
        A New Approach to Probabilistic Rounding Error Analysis (Higham and Mary, 2019).
        https://doi.org/10.1137/18M1226312
    """
    dtype = backbone.dtype
    if torch.get_float32_matmul_precision() != "highest" and dtype == torch.float32:
        dtype = torch.bfloat16  # or TensorFloat-32, in which float32 is multiplied
    unit = torch.finfo(dtype).eps / 2
    rounding = 2 * math.sqrt(_ROUNDINGS * (backbone.num_layers + 1)) * unit
    return max(rounding, _LEAST_TOLERANCE)


def differ(batch: Tensor, alone: Sequence[Tensor], tolerance: float) -> bool:
    """Whether states of a batch are others than those of its sentences alone, in any layer."""
    for row, states in enumerate(alone):
        difference = batch[:, row : row + 1, : states.shape[2]] - states
        norms = states.norm(dim=3).clamp_min(torch.finfo().tiny)
        relative = (difference.norm(dim=3) / norms).square().mean(dim=(1, 2)).sqrt()
        if relative.max() > tolerance:
            return True
    return False


def warn_of_findings(backbone: Any, encoders: Sequence[Any]) -> None:
    """Warn if batches need equal lengths, or encoders pool a token that outweighs all others."""
    findings: Findings = backbone.findings
    if findings.equal_lengths:
        warn(
            f"encoder: padding changes the vectors of {backbone.path}; only sentences of equal "
            "length share a batch, which takes longer"
        )
    device = backbone.device
    read = [x.reading for x in encoders if _reads_outlier(findings, x, device)]
    if read:
        layers = ", ".join(
            str(list(layers)) for layers in sorted({x.layers for x in read})
        )
        poolings = ", ".join(sorted({x.pooling for x in read}))
        usable = [
            str(layer)
            for layer in range(len(findings.states))
            if _ratios(findings, [layer]).max() <= _OUTLIER_RATIO
        ]
        warn(
            f"encoder: in layers {layers} of {backbone.path} a token has more than "
            f"{_OUTLIER_RATIO} times the median norm of its sentence, and pooling {poolings} "
            "reads it: unrelated sentences get similar vectors; expected pooling last_token, or "
            f"layers without such a token ({', '.join(usable) or 'there are none'})"
        )


def _ratios(findings: Findings, layers: Sequence[int]) -> Tensor:
    """Norm of each token by the median of its sentence, ``(2, T)``; 0 in padding."""
    norms = average_layers(findings.states, layers).norm(dim=2)
    norms = norms.masked_fill(findings.features["attention_mask"] == 0, torch.nan)
    ratios: Tensor = norms / norms.nanmedian(dim=1, keepdim=True).values
    return ratios.nan_to_num(0)


def _reads_outlier(findings: Findings, encoder: Any, device: torch.device) -> bool:
    """Whether an encoder's vectors change without its tokens of large norm."""
    outliers = _ratios(findings, encoder.layers) > _OUTLIER_RATIO
    if encoder.sink_token:
        outliers[:, 0] = False  # it is large because no sink is in front of it here
    if isinstance(encoder.pooling, NetworkPooling) or not outliers.any():
        return False
    tokens = average_layers(findings.states, encoder.layers)
    others = tokens.masked_fill(outliers.unsqueeze(2), 0.0)
    features = {name: value.to(device) for name, value in findings.features.items()}
    pooled = [encoder.pool(x.to(device), features) for x in (tokens, others)]
    return not torch.equal(*pooled)


def check_pooling(findings: Findings, encoder: Any) -> None:
    """Check that a pooling reads a sentence alone, and none of its padding.

    Raises:
        UserError: If its vectors of a sentence differ in a batch and alone.
    """
    if isinstance(encoder.pooling, NetworkPooling):
        return
    features = {name: x.to(encoder.device) for name, x in findings.features.items()}
    tokens = average_layers(findings.states, encoder.layers).to(encoder.device)
    together = encoder.pool(tokens, features)[:1]
    length = int(features["attention_mask"][0].sum())
    short = {name: x[:1, :length] for name, x in features.items()}
    alone = encoder.pool(tokens[:1, :length], short)
    if (together - alone).norm() > _LEAST_TOLERANCE * alone.norm():
        raise UserError(
            f"received {str(encoder.pooling)!r}, whose vector of a sentence depends on its batch; "
            "expected a pooling that reads tokens where the mask is true",
            argument="pooling",
        )
