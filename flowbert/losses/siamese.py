"""The three objectives of Sentence-BERT, on pairs or triples of embeddings."""

import torch
from torch import Tensor
from torch.nn import functional

from flowbert.losses.base import check_shapes


def softmax_loss(u: Tensor, v: Tensor, labels: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Cross-entropy of :math:`\mathrm{softmax}(W [u; v; |u - v|] + b)`, in float32.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        labels: Class of each pair, ``(B,)``, 0 to K - 1.
        weight: W, ``(K, 3D)``.
        bias: b, ``(K,)``; none by default.

    Shapes:
        result: ``()``, nats.  B: batch, D: embedding size, K: classes.

    Raises:
        ValueError: If the shapes of u and v differ.

    Example:
        >>> softmax_loss(torch.ones(2, 4), torch.ones(2, 4), torch.tensor([0, 1]), torch.zeros(3, 12))
        tensor(1.0986)
    """
    check_shapes(u, v)
    with torch.autocast(u.device.type, enabled=False):
        u, v = u.float(), v.float()
        features = torch.cat([u, v, (u - v).abs()], dim=1)
        return functional.cross_entropy(functional.linear(features, weight.float(), bias), labels)


def cosine_loss(u: Tensor, v: Tensor, targets: Tensor) -> Tensor:
    r"""Mean squared error of the cosine: :math:`\frac{1}{B} \sum_i (\cos(u_i, v_i) - y_i)^2`, in float32.

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        targets: Wanted cosines, ``(B,)``: the gold score over its largest value, so 0 to 1.

    Shapes:
        result: ``()``.  B: batch, D: embedding size.

    Raises:
        ValueError: If the shapes of u and v differ.

    Example:
        >>> cosine_loss(torch.eye(2), torch.eye(2), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    check_shapes(u, v)
    with torch.autocast(u.device.type, enabled=False):
        return functional.mse_loss(functional.cosine_similarity(u.float(), v.float()), targets.float())


def triplet_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0) -> Tensor:
    r"""Mean of :math:`\max(\lVert a - p \rVert - \lVert a - n \rVert + m, 0)`, Euclidean, in float32.

    Args:
        anchor: Embeddings a, ``(B, D)``.
        positive: Embeddings p that belong near them, ``(B, D)``.
        negative: Embeddings n that belong farther away, ``(B, D)``.
        margin: m.

    Shapes:
        result: ``()``.  B: batch, D: embedding size.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> triplet_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
        tensor(1.)
    """
    check_shapes(anchor, positive, negative)
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = anchor.float(), positive.float(), negative.float()
        # The norm of torch has gradient 0 at a zero difference; an identical pair must not give NaN.
        near, far = torch.linalg.vector_norm(a - p, dim=1), torch.linalg.vector_norm(a - n, dim=1)
        return functional.relu(near - far + margin).mean()
