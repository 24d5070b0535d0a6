"""Losses of methods that train an encoder; register a class to add a contrastive loss."""

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from flowbert.errors import UserError
from flowbert.numbers import Positive, check_limits
from flowbert.registry import Registry

Losses = dict[str, tuple[float, Tensor, int]]
"""Weight (0: only logged), mean, and number of examples or tokens, by name."""


class ContrastiveLoss(nn.Module):
    """A loss of B sentences and their positives; the rest of the batch are negatives.

    Shapes:
        first, second, hard: ``(B, D)``; result: ``()``.  B: batch, D: size of a vector.
    """

    @abstractmethod
    def forward(
        self, first: Tensor, second: Tensor, hard: Tensor | None = None
    ) -> Tensor:
        """The loss.

        Args:
            first: Embeddings of the sentences.
            second: Embeddings of their positives.
            hard: One hard negative for each sentence, if the data have them.
        """


LOSSES: Registry[type[ContrastiveLoss]] = Registry("loss", base=ContrastiveLoss)
"""Contrastive losses by name; their arguments are their options."""


@LOSSES.register("infonce")
class InfoNCE(ContrastiveLoss):
    r"""Cross-entropy of each sentence's positive among all positives and hard negatives.

    .. math::
        -\frac{1}{B} \sum_i \log \frac{e^{c(h_i, h_i^+)}}
        {\sum_j e^{c(h_i, h_j^+)} + \sum_j e^{w [i = j]} e^{c(h_i, h_j^-)}},
        \qquad c(a, b) = \cos(a, b) / \tau

    As in the official code, the weight w is added only to the logit of the hard negative that
    belongs to the sentence. The computation is in float32, also under autocast.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021).
        https://arxiv.org/abs/2104.08821

    Args:
        temperature: :math:`\tau`.
        hard_negative_weight: w; 0 treats this hard negative like those of other sentences.

    Shapes:
        first, second, hard: ``(B, D)``; result: ``()``, nats.  B: batch, D: size of a vector.

    Raises:
        UserError: If the temperature is not above 0, or a batch has no negatives.

    Example:
        >>> InfoNCE(temperature=1.0)(torch.eye(2), torch.eye(2))
        tensor(0.3133)
    """

    def __init__(
        self, temperature: Positive = 0.05, hard_negative_weight: float = 0.0
    ) -> None:
        super().__init__()
        check_limits(InfoNCE, locals())
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight

    def forward(
        self, first: Tensor, second: Tensor, hard: Tensor | None = None
    ) -> Tensor:
        """The loss, see the class."""
        count, device = len(first), first.device
        if count < 2 and hard is None:
            raise UserError(
                f"received a batch of {count}, which has no negatives; "
                "expected at least 2",
                argument="batch_size",
            )
        with torch.autocast(device.type, enabled=False):
            anchors = functional.normalize(first.float())
            logits = anchors @ functional.normalize(second.float()).T / self.temperature
            if hard is not None:
                others = (
                    anchors @ functional.normalize(hard.float()).T / self.temperature
                )
                own = self.hard_negative_weight * torch.eye(count, device=device)
                logits = torch.cat([logits, others + own], dim=1)
            return functional.cross_entropy(logits, torch.arange(count, device=device))
