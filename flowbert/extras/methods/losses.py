"""Losses of Sentence-BERT, and the mean cosine of word embeddings."""

import torch
from torch import Tensor, nn
from torch.nn import functional


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
