"""Every map of embeddings under one contract: raw, calibrations, the flow (``flowbert.methods.flow``), chains."""

from flowbert.methods.base import FittedMap as FittedMap
from flowbert.methods.base import Method as Method
from flowbert.methods.chain import Chain as Chain
from flowbert.methods.chain import LabelledPairs as LabelledPairs
from flowbert.methods.embedder import Embedder as Embedder
from flowbert.methods.embedder import load as load
from flowbert.methods.registry import make_calibration as make_calibration
from flowbert.methods.registry import parse_methods as parse_methods
