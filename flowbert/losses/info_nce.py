"""The contrastive loss of SimCSE: which of the batch's sentences is the positive of this one."""

import torch
from torch import Tensor
from torch.nn import functional

from flowbert.errors import UserError


def check_temperature(temperature: float) -> float:
    """Give ``temperature`` back if it is above 0.

    Raises:
        UserError: If it is not.
    """
    if not temperature > 0:
        raise UserError(f"temperature: received {temperature}; allowed: above 0 (SimCSE: 0.05)")
    return temperature


def info_nce(
    h: Tensor,
    h_pos: Tensor,
    temperature: float = 0.05,
    hard_negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
) -> Tensor:
    r"""Cross-entropy of each sentence's own positive among all positives and hard negatives of the batch.

    .. math::
        -\frac{1}{B} \sum_i \log \frac{e^{c(h_i, h_i^+)}}
        {\sum_j e^{c(h_i, h_j^+)} + \sum_j e^{w [i = j]} e^{c(h_i, h_j^-)}},
        \qquad c(a, b) = \cos(a, b) / \tau

    The weight w is added to the logit of a sentence's own hard negative alone, as in the official code, which the
    paper's notation :math:`\alpha^{[i = j]}` means with :math:`\alpha = e^w`. Similarities and loss are float32
    whatever the precision of the embeddings or of an autocast around the call.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        h: Embeddings, ``(B, D)``.
        h_pos: Embeddings of their positives, ``(B, D)``.
        temperature: :math:`\tau`, above 0.
        hard_negatives: One negative for each sentence, ``(B, D)``; every sentence sees all of them.
        hard_negative_weight: w; 0 treats the own hard negative like those of the other sentences.

    Shapes:
        result: ``()``, nats.  B: batch, D: embedding size.

    Raises:
        UserError: If the temperature is not above 0, the shapes differ, or there is nothing to tell the positive from
            (a batch of one without hard negatives).

    Example:
        >>> h = torch.eye(2)
        >>> info_nce(h, h, temperature=1.0)
        tensor(0.3133)
    """
    check_temperature(temperature)
    shapes = {tuple(t.shape) for t in (h, h_pos, hard_negatives) if t is not None}
    if len(shapes) > 1 or h.ndim != 2:
        raise UserError(f"info_nce: received embeddings of shapes {sorted(shapes)}; allowed: one shape (B, D) for all")
    if len(h) < 2 and hard_negatives is None:
        raise UserError(f"info_nce: received a batch of {len(h)}, which has no negatives; allowed: 2 sentences or more")
    with torch.autocast(h.device.type, enabled=False):
        anchors = functional.normalize(h.float(), dim=1)
        logits = anchors @ functional.normalize(h_pos.float(), dim=1).T / temperature
        own = torch.arange(len(h), device=h.device)
        if hard_negatives is not None:
            hard = anchors @ functional.normalize(hard_negatives.float(), dim=1).T / temperature
            bias = hard_negative_weight * torch.eye(len(h), device=h.device)
            logits = torch.cat([logits, hard + bias], dim=1)
        return functional.cross_entropy(logits, own)
