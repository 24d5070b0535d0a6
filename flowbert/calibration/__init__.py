"""Closed-form maps of sentence embeddings under one contract; a new method is one file and one line here."""

from flowbert.calibration.affine import AffineCalibration as AffineCalibration
from flowbert.calibration.affine import AffineMap as AffineMap
from flowbert.calibration.base import Calibration as Calibration
from flowbert.calibration.base import NotFittedError as NotFittedError
from flowbert.calibration.base import methods as methods
from flowbert.calibration.chain import Chain as Chain
from flowbert.calibration.chain import LabelledPairs as LabelledPairs
from flowbert.calibration.identity import Identity as Identity
from flowbert.calibration.learned_removal import LearnedRemoval as LearnedRemoval
from flowbert.calibration.moments import Moments as Moments
from flowbert.calibration.registry import make_calibration as make_calibration
from flowbert.calibration.registry import split_chain as split_chain
from flowbert.calibration.removal import RemoveDirections as RemoveDirections
from flowbert.calibration.standardization import Standardization as Standardization
from flowbert.calibration.whitening import Whitening as Whitening
from flowbert.calibration.zca import ZCA as ZCA
