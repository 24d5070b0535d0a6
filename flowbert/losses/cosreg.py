"""Cosine regularization: a penalty on word embeddings that all point the same way."""

import torch
from torch import Tensor


def mean_pair_cosine(vectors: Tensor) -> Tensor:
    r"""Mean cosine over all pairs of different rows, without building the pairs.

    With unit vectors :math:`\hat w_i = w_i / \lVert w_i \rVert`,

    .. math::
        \frac{1}{N (N - 1)} \sum_{i \ne j} \cos(w_i, w_j)
        = \frac{\lVert \sum_i \hat w_i \rVert^2 - N}{N (N - 1)}

    in time and memory O(N D), exactly. As a regularizer it is added with a weight :math:`\gamma` to the loss of a
    language model, over the word embeddings that are also its output layer; the paper, with :math:`\gamma = 1`, divides
    by :math:`N^2`, which is a part in N smaller. Rows of zeros (padding) have no direction: they are left out of the
    pairs and have gradient zero. Computed in float32 whatever the precision of the vectors or of an autocast around
    the call.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models (Gao et al., 2019).
        https://arxiv.org/abs/1907.12009

    Args:
        vectors: N vectors, ``(N, D)``.

    Shapes:
        result: ``()``, in [-1, 1].  N: vectors, D: their size.

    Raises:
        ValueError: If the shape is another, or fewer than two rows are not zero.

    Example:
        >>> mean_pair_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
        tensor(0.3333)
    """
    if vectors.ndim != 2:
        raise ValueError(f"mean_pair_cosine: received shape {tuple(vectors.shape)}; allowed: (N, D)")
    with torch.autocast(vectors.device.type, enabled=False):
        rows = vectors.float()
        norms = torch.linalg.vector_norm(rows, dim=1)
        empty = norms == 0
        count = len(rows) - int(empty.sum())
        if count < 2:
            raise ValueError(f"mean_pair_cosine: received {count} vectors that are not zero; allowed: 2 or more")
        # 1 / infinity: a zero row adds nothing, and gets no gradient by way of 1 / 0.
        total = norms.masked_fill(empty, torch.inf).reciprocal() @ rows
        mean: Tensor = (total.square().sum() - count) / (count * (count - 1))
        return mean
