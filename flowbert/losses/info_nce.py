"""The contrastive loss of SimCSE: which of the batch's sentences is the positive of this one."""

import torch
from torch import Tensor
from torch.nn import functional

from flowbert.errors import UserError
from flowbert.losses.base import ContrastiveLoss, check_shapes


class InfoNCE(ContrastiveLoss):
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
        temperature: :math:`\tau`, above 0.
        hard_negative_weight: w; 0 treats the own hard negative like those of the other sentences.

    Shapes:
        result: ``()``, nats.  B: batch, D: embedding size.

    Raises:
        UserError: If the temperature is not above 0.

    Example:
        >>> InfoNCE(temperature=1.0)(torch.eye(2), torch.eye(2))
        tensor(0.3133)
    """

    def __init__(self, temperature: float = 0.05, hard_negative_weight: float = 0.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise UserError(f"temperature: received {temperature}; allowed: above 0 (SimCSE: 0.05)")
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight

    def forward(self, first: Tensor, second: Tensor, hard: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            first: Embeddings h, ``(B, D)``.
            second: Embeddings :math:`h^+` of their positives, ``(B, D)``.
            hard: One negative :math:`h^-` for each sentence, ``(B, D)``; every sentence sees all of them.

        Raises:
            UserError: If there is nothing to tell the positive from (a batch of one without hard negatives).
            ValueError: If the shapes differ.
        """
        check_shapes(first, second, hard)
        if len(first) < 2 and hard is None:
            raise UserError(f"received a batch of {len(first)}, which has no negatives; allowed: 2 sentences or more")
        with torch.autocast(first.device.type, enabled=False):
            anchors = functional.normalize(first.float(), dim=1)
            logits = anchors @ functional.normalize(second.float(), dim=1).T / self.temperature
            if hard is not None:
                others = anchors @ functional.normalize(hard.float(), dim=1).T / self.temperature
                own = torch.eye(len(first), device=first.device)
                logits = torch.cat([logits, others + self.hard_negative_weight * own], dim=1)
            return functional.cross_entropy(logits, torch.arange(len(first), device=first.device))
