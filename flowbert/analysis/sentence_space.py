"""Measures of one set of sentence vectors: spectrum, isotropy, hubness."""

from typing import NamedTuple

from flowbert.metrics import hubness, mean_cosine, uniformity
from flowbert.metrics.arrays import Array, to_rows
from flowbert.metrics.spectrum import effective_rank, isoscore, participation_ratio, partition_isotropy, spectrum


class SentenceSpace(NamedTuple):
    """Measures of N vectors of size D, each by its published definition.

    Attributes:
        effective_rank: :func:`flowbert.metrics.spectrum.effective_rank`, 1 to D.
        participation_ratio: :func:`flowbert.metrics.spectrum.participation_ratio`, 1 to D.
        isoscore: :func:`flowbert.metrics.spectrum.isoscore`, 0 to 1.
        partition_isotropy: :func:`flowbert.metrics.spectrum.partition_isotropy`, 0 to 1.
        mean_cosine: Mean cosine of all pairs, -1 to 1.
        uniformity: Lower is more uniform.
        hubness: :func:`flowbert.metrics.hubness`, 0 without hubs.
    """

    effective_rank: float
    participation_ratio: float
    isoscore: float
    partition_isotropy: float
    mean_cosine: float
    uniformity: float
    hubness: float


def sentence_space(x: Array, k: int = 10) -> SentenceSpace:
    """Measure vectors ``(N, D)`` of distinct sentences, N above k and D at least 2; O(N^2 D).

    Args:
        x: The vectors, torch or numpy.
        k: Neighbours that the hubness counts, by cosine.

    Raises:
        ValueError: If ``x`` is not 2-D, or has no row.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> round_ball, cone = sentence_space(x), sentence_space(x + 5)
        >>> abs(round_ball.isoscore - cone.isoscore) < 1e-4, round_ball.mean_cosine < 0.1 < cone.mean_cosine
        (True, True)
    """
    rows = to_rows(x)
    values = spectrum(rows)
    return SentenceSpace(
        effective_rank(values),
        participation_ratio(values),
        isoscore(values),
        partition_isotropy(rows),
        mean_cosine(rows),
        uniformity(rows),
        hubness(rows, k),
    )
