"""Losses of methods that train an encoder; a new contrastive loss is one class that registers."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from flowbert.errors import UserError
from flowbert.numbers import Positive, check_limits
from flowbert.registry import Registry

Losses = dict[str, tuple[float, Tensor, int]]
"""Weight (0: only logged), mean, and number of examples or tokens, by name."""


class ContrastiveLoss(nn.Module, ABC):
    """A loss of B sentences and their positives; the rest of the batch serves as negatives.

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
            hard: One hard negative for each sentence, where the data have them.
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

    The weight w is added to the logit of a sentence's own hard negative alone, as in the official
    code. Everything is computed in float32, under autocast too.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021).
        https://arxiv.org/abs/2104.08821

    Args:
        temperature: :math:`\tau`.
        hard_negative_weight: w; 0 treats the own hard negative like those of other sentences.

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


def softmax_loss(u: Tensor, v: Tensor, labels: Tensor, classifier: nn.Linear) -> Tensor:
    r"""Cross-entropy of :math:`\mathrm{softmax}(W [u; v; |u - v|] + b)`, in float32.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        labels: Class of each pair, ``(B,)``, 0 to K - 1.
        classifier: W ``(K, 3D)`` and b.

    Returns:
        Shape ``()``, nats.
    """
    with torch.autocast(u.device.type, enabled=False):
        u, v = u.float(), v.float()
        features = torch.cat([u, v, (u - v).abs()], dim=1)
        return functional.cross_entropy(classifier(features), labels)


def cosine_loss(u: Tensor, v: Tensor, targets: Tensor) -> Tensor:
    r"""Mean of :math:`(\cos(u, v) - y)^2`, in float32.

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        targets: Cosines y to reach, ``(B,)``.

    Returns:
        Shape ``()``.

    Example:
        >>> cosine_loss(torch.eye(2), torch.eye(2), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    with torch.autocast(u.device.type, enabled=False):
        cosines = functional.cosine_similarity(u.float(), v.float())
        return functional.mse_loss(cosines, targets.float())


def triplet_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0
) -> Tensor:
    r"""Mean of :math:`\max(\lVert a - p \rVert - \lVert a - n \rVert + m, 0)`, in float32.

    Args:
        anchor: Embeddings a, ``(B, D)``.
        positive: Embeddings p, ``(B, D)``.
        negative: Embeddings n, ``(B, D)``.
        margin: Margin m.

    Returns:
        Shape ``()``.

    Example:
        >>> triplet_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
        tensor(1.)
    """
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = anchor.float(), positive.float(), negative.float()
        # Its gradient is 0 where the difference is: an identical pair gives no NaN.
        near = torch.linalg.vector_norm(a - p, dim=1)
        far = torch.linalg.vector_norm(a - n, dim=1)
        return functional.relu(near - far + margin).mean()


def mean_pair_cosine(vectors: Tensor) -> Tensor:
    r"""Mean cosine over all pairs of different rows, in O(N D).

    .. math::
        \frac{1}{N (N - 1)} \sum_{i \ne j} \cos(w_i, w_j)
        = \frac{\lVert \sum_i w_i / \lVert w_i \rVert \rVert^2 - N}{N (N - 1)}

    The paper adds it with a weight :math:`\gamma` to the loss of a language model, over the word
    embeddings that are also its output layer, and divides by :math:`N^2`. Rows of zeros (padding)
    are left out. Computed in float32, under autocast too.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models
        (Gao et al., 2019). https://arxiv.org/abs/1907.12009

    Args:
        vectors: N vectors, ``(N, D)``.

    Returns:
        Shape ``()``, in [-1, 1].

    Example:
        >>> mean_pair_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
        tensor(0.3333)
    """
    with torch.autocast(vectors.device.type, enabled=False):
        rows = vectors.float()
        norms = torch.linalg.vector_norm(rows, dim=1)
        count = norms.count_nonzero()
        # The inverse of infinity: a row of zeros adds nothing and gets no gradient by way of 1 / 0.
        total = norms.masked_fill(norms == 0, torch.inf).reciprocal() @ rows
        mean: Tensor = (total.square().sum() - count) / (count * (count - 1))
        return mean
