"""Gaussianity of vectors under a map, with plots of their norms and moments."""

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from flowbert.analysis.drawing import INK, Plot, colour_of
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.tasks.measures import Array, to_rows, varying

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

NORM_BINS = 40
DRAWN_DIMENSIONS = 256


def dimension_moments(z: Array) -> pd.DataFrame:
    """Skewness and excess kurtosis of each dimension that varies by more than rounding.

    Args:
        z: Vectors, ``(N, D)``.

    Returns:
        Columns ``dimension`` (from 0), ``skewness``, ``excess_kurtosis``.
    """
    rows = to_rows(z)
    varies = varying(rows)
    alive = rows[:, varies].cpu().numpy()
    return pd.DataFrame(
        {
            "dimension": varies.nonzero().ravel().tolist(),
            "skewness": stats.skew(alive),
            "excess_kurtosis": stats.kurtosis(alive),
        }
    )


def gaussianity(z: Array) -> dict[str, float]:
    """How far vectors of size D are from a standard normal, which has 0, 1, 0, 0, D and 0.

    Args:
        z: Vectors, ``(N, D)``, N at least 2.

    Returns:
        ``mean``: mean over the dimensions of the absolute mean; ``std``: mean of their standard
        deviations; ``skewness``: mean of their absolute skewness; ``excess_kurtosis``: mean of
        their kurtosis less 3, both of the dimensions that vary; ``squared_norm``: mean over the
        vectors; ``norm_distance``: Kolmogorov-Smirnov distance of the norms from the chi
        distribution with D degrees of freedom.

    Example:
        >>> import torch
        >>> z = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
        >>> gaussianity(z)["norm_distance"] < 0.02 < gaussianity(z**3)["norm_distance"]
        True
    """
    rows = to_rows(z)
    moments = dimension_moments(rows)
    norms = rows.norm(dim=1)
    chi = stats.chi(rows.shape[1])
    return {
        "mean": float(rows.mean(dim=0).abs().mean()),
        "std": float(rows.std(dim=0, correction=0).mean()),
        "skewness": float(moments["skewness"].abs().mean()),
        "excess_kurtosis": float(moments["excess_kurtosis"].mean()),
        "squared_norm": float(norms.square().mean()),
        "norm_distance": float(stats.kstest(norms.cpu().numpy(), chi.cdf).statistic),
    }


def norm_histogram(z: Array) -> pd.DataFrame:
    r"""Histogram of the norms of vectors ``(N, D)``, divided by :math:`\sqrt D`.

    Returns:
        Columns ``dim`` (D), ``norm_from``, ``norm_to``, ``vectors`` (their number).
    """
    rows = to_rows(z)
    dim = rows.shape[1]
    norms = rows.norm(dim=1) / math.sqrt(dim)
    counts, edges = np.histogram(norms.cpu().numpy(), NORM_BINS)
    return pd.DataFrame(
        {"dim": dim, "norm_from": edges[:-1], "norm_to": edges[1:], "vectors": counts}
    )


@MEASURES.register("latents")
class Latents(Measure):
    """A row per method except raw, see :func:`gaussianity`."""

    title: ClassVar = "Latents against a standard normal distribution"

    def frame(self, sample: Sample) -> pd.DataFrame:
        """Every method except raw against a standard normal distribution."""
        return by_method(sample.latents, lambda z: [gaussianity(z)])


def draw_latent_norms(ax: "Axes", frame: pd.DataFrame) -> None:
    """Histogram of the norms, and the density of a standard normal's.

    Args:
        ax: Axes.
        frame: Columns method, dim, norm_from, norm_to (divided by the root of dim) and vectors.
    """
    edges = [*frame["norm_from"], frame["norm_to"].iloc[-1]]
    ax.hist(
        frame["norm_from"],
        edges,
        weights=frame["vectors"],
        density=True,
        color=colour_of(frame),
        alpha=0.6,
    )
    dim = frame["dim"].iloc[0]
    root = math.sqrt(dim)
    x = np.linspace(max(0.01, 1 - 4 / root), 1 + 4 / root, 80)
    ax.plot(x, root * stats.chi.pdf(root * x, dim), color=INK)
    ax.locator_params(nbins=4)
    ax.set(xlabel="norm / root of the dimension", ylabel="density")


@MEASURES.register("latent_norms")
class LatentNorms(Measure):
    """A row per method except raw and bin of a histogram, see :func:`norm_histogram`."""

    plots: ClassVar = {
        "latent-norms": Plot(
            draw_latent_norms,
            "Norms of latents",
            "Filled: the vectors; line: a standard normal distribution of this dimension.",
            facets="method",
            height=2.0,
            share="xy",
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The histogram of every method except raw."""
        return by_method(sample.latents, norm_histogram)


def draw_latent_moments(ax: "Axes", frame: pd.DataFrame) -> None:
    """Skewness and excess kurtosis of each dimension; a cross marks the normal distribution.

    Args:
        ax: Axes.
        frame: Columns method, skewness and excess_kurtosis.
    """
    ax.scatter(frame["skewness"], frame["excess_kurtosis"], s=5, color=colour_of(frame))
    ax.plot(0, 0, "+", color=INK, markersize=10)
    ax.locator_params(nbins=4)
    ax.set(xlabel="skewness", ylabel="excess kurtosis")


@MEASURES.register("latent_moments")
class LatentMoments(Measure):
    """A row per method except raw and dimension, at most 256, evenly spaced."""

    plots: ClassVar = {
        "latent-moments": Plot(
            draw_latent_moments,
            "Moments of latents",
            "A point is a dimension, the cross a normal distribution; above it, tails are heavier.",
            facets="method",
            height=2.0,
            share="xy",
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The moments of every method except raw."""
        return by_method(sample.latents, _some_moments)


def _some_moments(z: Array) -> pd.DataFrame:
    moments = dimension_moments(z)
    step = math.ceil(len(moments) / DRAWN_DIMENSIONS) or 1
    return moments[::step]
