"""A pooling: tokens with long vectors count more.

python train.py compare --encoder.pooling mean,examples.extend.pooling.NormWeighted:exponent=2
"""

from torch import Tensor

from flowbert.encoders.pooling import Pooling


class NormWeighted(Pooling):
    """Mean over tokens, each with a power of its norm as its weight.

    Long vectors are those of words that carry much information (Oyama et al., 2023, arXiv
    2212.09663, for word vectors).

    Args:
        exponent: Power of the norm; 0 is the mean.
    """

    def __init__(self, exponent: float = 1.0) -> None:
        self.exponent = exponent

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        tokens = tokens.masked_fill(~mask.unsqueeze(-1), 0.0)
        norms: Tensor = tokens.norm(dim=-1, keepdim=True)
        weights = norms**self.exponent * mask.unsqueeze(-1)
        return (weights * tokens).sum(dim=1) / weights.sum(dim=1)
