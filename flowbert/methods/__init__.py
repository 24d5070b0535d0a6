"""Every map of embeddings under one contract: raw, calibrations, the flow, chains of them."""

from flowbert.methods.chain import Chain as Chain
from flowbert.methods.chain import LabelledPairs as LabelledPairs
from flowbert.methods.embedder import Embedder as Embedder
from flowbert.methods.embedder import load_embedder as load_embedder
from flowbert.methods.flow_fit import fit_flow as fit_flow
from flowbert.methods.registry import make_calibration as make_calibration
from flowbert.methods.registry import split_chain as split_chain
