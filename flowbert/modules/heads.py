"""The layer between the pooled encoder and the contrastive loss."""

import torch
from torch import Tensor, nn

from flowbert.seeding import Stream

HEADS = ("mlp_train_only", "mlp", "none")
_INIT_STD = 0.02  # BERT's own


class DenseTanh(nn.Module):
    r"""Dense layer and tanh: :math:`y = \tanh(W x + b)`, started as BERT starts its layers.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        dim: Vector size D.
        seed: Seed of the start, :math:`W \sim N(0, 0.02^2)`, b = 0.

    Shapes:
        x, y: ``(..., D)``.  D: embedding size.

    Example:
        >>> DenseTanh(4)(torch.zeros(2, 4))
        tensor([[0., 0., 0., 0.],
                [0., 0., 0., 0.]], grad_fn=<TanhBackward0>)
    """

    def __init__(self, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        with torch.no_grad():
            self.dense.weight.normal_(0.0, _INIT_STD, generator=Stream(seed, "head").generator())
            self.dense.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return torch.tanh(self.dense(x))
