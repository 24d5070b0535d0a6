"""A contrastive loss: alignment and uniformity.

python train.py fit --config simcse_unsup --model.loss examples.extend.loss.AlignUniform:weight=2
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from flowbert.methods.losses import ContrastiveLoss


class AlignUniform(ContrastiveLoss):
    r"""Mean :math:`|x - y|^2` of positives plus w log mean :math:`e^{-2 |x - x'|^2}` of others.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere (Wang and Isola, 2020). https://arxiv.org/abs/2005.10242

    Args:
        weight: Weight w of the uniformity.
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight

    def forward(
        self, first: Tensor, second: Tensor, hard: Tensor | None = None
    ) -> Tensor:
        """The loss; hard negatives count as others."""
        x, y = normalize(first.float()), normalize(second.float())
        others = x if hard is None else torch.cat([x, normalize(hard.float())])
        uniformity = torch.pdist(others).square().mul(-2).exp().mean().log()
        return (x - y).square().sum(dim=1).mean() + self.weight * uniformity
