"""Fitting whitening: seconds of one call, of blocks, and of scikit-learn's PCA, and the error of each covariance.

One run measures everything on the same rows, several times in turn, and takes the fastest of each; the floor is the
products a covariance needs, N D^2 multiplications and additions (half of them with its symmetry), at the rate of this
machine's float32 and float64 matrix products in the same run. Errors are those of the covariance on data whose mean is
100 times their spread, against products summed in extended precision. Prints a Markdown table.

    python benchmarks/whitening_fit.py --rows 200000 --dim 768
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from flowbert import Whitening
from flowbert.calibration import Moments
from flowbert.errors import FlowbertWarning

BLOCK = 4096


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Time of a fit of whitening, and the error of its covariance.")
    parser.add_argument("--rows", default=200_000, type=int)
    parser.add_argument("--dim", default=768, type=int)
    parser.add_argument("--repeats", default=3, type=int, help="how often each is measured (default 3)")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"), help="cpu: on a machine others use, too")
    return parser.parse_args()


def data(rows: int, dim: int, ratio: float) -> Tensor:
    """Rows with falling variances over five decades, mixed, and a mean of ``ratio`` times the largest spread."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.logspace(0, -2.5, dim)
    rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator)).Q
    mixed: Tensor = (torch.randn(rows, dim, generator=generator) * scales) @ rotation
    return mixed + ratio


def by_blocks(x: Tensor) -> Whitening:
    """Whitening fitted by ``partial_fit`` of :data:`BLOCK` rows."""
    whitening = Whitening()
    for block in torch.split(x, BLOCK):
        whitening.partial_fit(block)
    whitening.affine_map()
    return whitening


def covariance_of(name: str, x: Tensor) -> NDArray[np.float64]:
    """The covariance that a way to fit arrives at, in float64."""
    if name.startswith("scikit"):
        found: NDArray[np.float64] = np.asarray(_pca(x).get_covariance(), dtype=np.float64)
        return found
    moments = Moments(x.shape[1])
    for block in [x] if name == "Whitening.fit" else torch.split(x, BLOCK):
        moments.update(block)
    return moments.covariance().numpy()


def reference(x: Tensor) -> NDArray[np.float64]:
    """The covariance in extended precision (80 bits), two passes."""
    rows = x.numpy().astype(np.longdouble)
    rows -= rows.mean(axis=0)
    return np.asarray(rows.T @ rows / (len(rows) - 1), dtype=np.float64)


def seconds(ways: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """The fastest of several measurements of each, taken in turn."""
    best = dict.fromkeys(ways, np.inf)
    for _ in range(repeats):
        for name, way in ways.items():
            start = clock()
            way()
            best[name] = min(best[name], clock() - start)
    return best


def _pca(x: Tensor) -> Any:
    return PCA(svd_solver="covariance_eigh").fit(x.numpy())


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", FlowbertWarning)
    arguments = parse_arguments()
    rows, dim = arguments.rows, arguments.dim
    x = data(rows, dim, 3.0)
    single, double = x[:BLOCK], x[:BLOCK].double()
    fits: dict[str, Callable[[], Any]] = {
        "Whitening.fit": lambda: Whitening().fit(x),
        f"partial_fit by {BLOCK} rows": lambda: by_blocks(x),
        "scikit-learn PCA(covariance_eigh)": lambda: _pca(x),
    }
    products: dict[str, Callable[[], Any]] = {
        "float32": lambda: single.T @ single,
        "float64": lambda: double.T @ double,
    }
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    found = seconds(fits | products, arguments.repeats, clock)
    small = data(4000, min(dim, 128), 100.0)
    exact = reference(small)
    fit = found["Whitening.fit"]
    print(f"{rows} x {dim}, {torch.get_num_threads()} threads, {arguments.clock} clock\n")
    print("| | seconds | / Whitening.fit | error of the covariance, mean 100 x spread |\n|---|---:|---:|---:|")
    for name in fits:
        error = np.abs(covariance_of(name, small) - exact).max() / np.abs(exact).max()
        print(f"| {name} | {found[name]:.2f} | {found[name] / fit:.2f} | {error:.1e} |")
    for name in products:
        floor = found[name] * rows / BLOCK
        print(f"| floor: all products in {name}, half of them | {floor / 2:.2f} | {floor / 2 / fit:.2f} | |")


if __name__ == "__main__":
    main()
