"""A fit of whitening, beside scikit-learn's PCA by the covariance, which stays in float32.

Floor: one triangle of the products of all rows and nine D^3 of the eigenvectors (Golub and Van
Loan), in float64; the rows are read once in float32.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.harness import Row, Setting
from flowbert.maps import Whitening

ROWS, DIM = 100_000, 768


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of a fit on rows with variances that fall over five decades."""
    count = setting.times(ROWS, 4 * DIM)
    rng = np.random.default_rng(0)
    scales = np.logspace(0, -2.5, DIM, dtype=np.float32)
    x = rng.standard_normal((count, DIM), dtype=np.float32) * scales + np.float32(3)
    pca = PCA(whiten=True, svd_solver="covariance_eigh")
    fits = {"ours": lambda: Whitening().fit(x), "peer": lambda: pca.fit(x)}
    best = setting.seconds(fits, 3)
    name = "scikit-learn PCA(covariance_eigh)"
    operations = float(count * DIM * (DIM + 1) + 9 * DIM**3)
    floor = setting.floor(operations, 4.0 * count * DIM, "float64")
    size = f"fit, {count} x {DIM}"
    yield Row("whitening", size, best["ours"], best["peer"], name, floor)
