"""Gaussianity of vectors under a map, and bits per dimension under densities."""

import copy
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from flowbert.analysis.drawing import INK, Plot, colour_of, draw_intervals
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.analysis.table import Table, number_table
from flowbert.flows import Glow, bits_per_dim
from flowbert.tasks.measures import Array, to_rows, varying

if TYPE_CHECKING:  # imported when it is used
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
    """Distance of vectors of size D from a standard normal, which has 0, 1, 0, 0, D and 0.

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


SMALLEST_EIGENVALUE = 1e-10
"""Smallest eigenvalue relative to the largest with which a Gaussian has a density."""

GAUSSIANS = {
    "Gaussian": 0.0,
    **{f"Gaussian, shrinkage {s:g}": s for s in (1e-4, 1e-3, 1e-2, 1e-1)},
}
"""Gaussians to compare a flow with, and their shrinkage."""


def density_bits(
    flow: Glow, fitting: Array, held_out: Array, name: str = "flow"
) -> dict[str, float]:
    """Bits per dimension of held-out embeddings under a flow and under Gaussians.

    Lower is better. The difference between the flow and the best Gaussian is what whitening
    cannot describe.

    Args:
        flow: The fitted flow.
        fitting: Embeddings that it was fitted on, ``(N, D)``.
        held_out: Other embeddings, ``(M, D)``.
        name: Name of the flow.

    Returns:
        ``flow``, or ``name``; ``flow, couplings off``: its networks' outputs set to 0;
        ``diagonal Gaussian``; and :data:`GAUSSIANS` with the covariance (1 - s) C + s m I for their
        shrinkage s, m being the mean eigenvalue of C. Those that have no density are left out.

    Example:
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * 3
        >>> flow = Glow(4, levels=1)
        >>> flow.initialize(x[:250])
        >>> bits = density_bits(flow, x[:250], x[250:])
        >>> bits["flow"] == bits["flow, couplings off"], abs(bits["flow"] - bits["Gaussian"]) < 0.1
        (True, True)
    """
    rows, others = to_rows(fitting), to_rows(held_out)
    exact = copy.deepcopy(flow).to(rows.device, torch.float64).eval()
    bits = {name: _flow_bits(exact, others)}
    for tensor, parameter in exact.named_parameters():
        if tensor.endswith(("weight_out", "bias_out")):
            parameter.data.zero_()
    bits[f"{name}, couplings off"] = _flow_bits(exact, others)
    x, y = rows.cpu().numpy(), others.cpu().numpy()
    variances = x.var(axis=0)
    if variances.min() > SMALLEST_EIGENVALUE * variances.max():
        normal = stats.norm(x.mean(axis=0), np.sqrt(variances))
        bits["diagonal Gaussian"] = -float(normal.logpdf(y).mean()) / math.log(2)
    for gaussian_name, shrinkage in GAUSSIANS.items():
        value = gaussian_bits(x, y, shrinkage)
        if value is not None:
            bits[gaussian_name] = value
    return bits


def gaussian_bits(
    fitting: NDArray[np.float64], held_out: NDArray[np.float64], shrinkage: float
) -> float | None:
    """Bits per dimension of held-out rows under a shrunk Gaussian; None if it has no density.

    Args:
        fitting: Rows that it is fitted on, ``(N, D)``.
        held_out: Other rows, ``(M, D)``.
        shrinkage: Weight s of the mean variance: (1 - s) C + s m I.
    """
    from sklearn.covariance import ShrunkCovariance  # not before something is measured

    gaussian = ShrunkCovariance(shrinkage=shrinkage).fit(fitting)
    eigenvalues = np.linalg.eigvalsh(gaussian.covariance_)
    if not eigenvalues[0] > SMALLEST_EIGENVALUE * eigenvalues[-1]:
        return None
    return bits_per_dim(-float(gaussian.score(held_out)), fitting.shape[1])


@torch.no_grad()
def _flow_bits(flow: Glow, rows: Tensor) -> float:
    return bits_per_dim(float(flow.nll(rows).mean()), flow.dim)


def prepare_bits(frame: pd.DataFrame) -> pd.DataFrame:
    """Bits per dimension as values without interval, the best density first."""
    columns = {"density": "label", "bits": "value"}
    sorted_rows = frame.rename(columns=columns).sort_values("value")
    return sorted_rows.reindex(columns=["label", "value", "low", "high"])


@MEASURES.register("bits")
class Bits(Measure):
    """A row per density: bits per dimension of held-out vectors, see :func:`density_bits`."""

    note: ClassVar = (
        "Bits per dimension of held-out sentences, lower is better. A flow above the best Gaussian "
        "is a worse density than whitening, because of its noise."
    )
    plots: ClassVar = {
        "bits": Plot(
            draw_intervals,
            "Density of held-out sentences",
            "Bits per dimension, lower is better. What a flow gains over the best Gaussian is what "
            "no linear map sees.",
            prepare_bits,
            rows="label",
            height=0.5,
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The bits of every flow and of the Gaussians."""
        bits: dict[str, float] = {}
        if sample.fitting is not None and sample.held_out is not None:
            for name, flow in sample.flows.items():
                bits |= density_bits(flow, sample.fitting, sample.held_out, name)
        return pd.DataFrame(bits.items(), columns=["density", "bits"])

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """The whole frame, and how far each is above the best Gaussian."""
        best = frame.loc[frame["density"].isin(GAUSSIANS), "bits"].min()
        shown = frame.assign(above_the_best_gaussian=frame["bits"] - best)
        return [number_table("Bits per dimension of held-out sentences", shown)]
