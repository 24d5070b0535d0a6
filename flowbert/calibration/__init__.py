"""Closed-form maps of sentence embeddings under one contract; a new method is one file and one line here."""

from flowbert.calibration.base import AffineMap as AffineMap
from flowbert.calibration.base import Calibration as Calibration
from flowbert.calibration.base import NotFittedError as NotFittedError
from flowbert.calibration.base import methods as methods
from flowbert.calibration.given import GivenMap as GivenMap
from flowbert.calibration.identity import Identity as Identity
from flowbert.calibration.learned_removal import LearnedRemoval as LearnedRemoval
from flowbert.calibration.moments import Moments as Moments
from flowbert.calibration.removal import RemoveDirections as RemoveDirections
from flowbert.calibration.standardization import Standardization as Standardization
from flowbert.calibration.whitening import Whitening as Whitening
from flowbert.calibration.zca import ZCA as ZCA
