"""Every unsupervised calibration as a scikit-learn transformer; arguments and errors are those of the calibration."""

from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin

from flowbert import calibration
from flowbert.calibration.spectrum import RANK_TOLERANCE, Shrinkage
from flowbert.estimators.base import CalibrationTransformer


class Identity(OneToOneFeatureMixin, CalibrationTransformer):
    """The rows as they are; see :class:`flowbert.calibration.Identity`.

    Example:
        >>> Identity().fit_transform([[1.0, 2.0]]).tolist()
        [[1.0, 2.0]]
    """

    kind = calibration.Identity


class Standardization(OneToOneFeatureMixin, CalibrationTransformer):
    """Zero mean and unit variance, divisor N - 1; see :class:`flowbert.calibration.Standardization`.

    Example:
        >>> Standardization().fit([[0.0, 10.0], [2.0, 30.0]]).transform([[1.0, 20.0]]).tolist()
        [[0.0, 0.0]]
    """

    kind = calibration.Standardization


class Truncation(ClassNamePrefixFeaturesOutMixin, CalibrationTransformer):
    """The first dimensions alone; see :class:`flowbert.calibration.Truncation`.

    Args:
        n_components: How many dimensions k to keep; None keeps all.

    Example:
        >>> Truncation(n_components=1).fit_transform([[1.0, 2.0]]).tolist()
        [[1.0]]
    """

    kind = calibration.Truncation

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components


class Whitening(ClassNamePrefixFeaturesOutMixin, CalibrationTransformer):
    """Whitening, with shrinkage, softening and reduction; see :class:`flowbert.calibration.Whitening`.

    Args:
        n_components: How many directions k to keep, the largest first; None keeps all.
        shrinkage: Weight in [0, 1] of the mean eigenvalue times I, or ``"ledoit-wolf"``.
        exponent: Power in [-1, 0] of the eigenvalues; -0.5 whitens.
        rank_tolerance: Smallest trusted eigenvalue as a share of the largest.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(500, 4)) * [1.0, 2.0, 3.0, 4.0]
        >>> bool(np.allclose(np.cov(Whitening(n_components=2).fit_transform(x).T), np.eye(2)))
        True
    """

    kind = calibration.Whitening

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: Shrinkage = 0.0,
        exponent: float = -0.5,
        rank_tolerance: float = RANK_TOLERANCE,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.exponent = exponent
        self.rank_tolerance = rank_tolerance


class ZCA(OneToOneFeatureMixin, CalibrationTransformer):
    """Whitening turned back to the original axes; see :class:`flowbert.calibration.ZCA`.

    Args:
        shrinkage: Weight in [0, 1] of the mean eigenvalue times I, or ``"ledoit-wolf"``.
        exponent: Power in [-1, 0] of the eigenvalues; -0.5 whitens.
        rank_tolerance: Smallest trusted eigenvalue as a share of the largest.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 5.0]
        >>> bool(np.allclose(np.cov(ZCA().fit_transform(x).T), np.eye(2)))
        True
    """

    kind = calibration.ZCA

    def __init__(
        self, shrinkage: Shrinkage = 0.0, exponent: float = -0.5, rank_tolerance: float = RANK_TOLERANCE
    ) -> None:
        self.shrinkage = shrinkage
        self.exponent = exponent
        self.rank_tolerance = rank_tolerance


class RemoveDirections(OneToOneFeatureMixin, CalibrationTransformer):
    """Nulling of the strongest directions; see :class:`flowbert.calibration.RemoveDirections`.

    Args:
        n_directions: How many directions to null, below D; None takes ``round(D / 100)``, at least 1.
        standardize: Divide each dimension by its standard deviation first.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(100, 3)) * [9.0, 1.0, 1.0]
        >>> int(np.linalg.matrix_rank(RemoveDirections(1).fit_transform(x)))
        2
    """

    kind = calibration.RemoveDirections
    least_features = 2  # without its one direction nothing is left of a single dimension

    def __init__(self, n_directions: int | None = None, standardize: bool = False) -> None:
        self.n_directions = n_directions
        self.standardize = standardize
