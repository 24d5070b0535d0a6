"""Normalizing flows on vectors; torch only. Forward maps data to latent, inverse latent to data."""

from flowbert.flows.bijection import (
    Bijection,
    Composition,
    FullPrecision,
)
from flowbert.flows.coupling import (
    COUPLINGS,
    AdditiveCoupling,
    AffineCoupling,
    CouplingNet,
)
from flowbert.flows.data_initialized import ActNorm, DataInitialized, WhiteningLayer
from flowbert.flows.glow import Glow, bits_per_dim
from flowbert.flows.mixing import (
    MIXING_INITS,
    MIXINGS,
    LULinear,
    RandomPermutation,
    Reverse,
)
from flowbert.flows.prior import PRIORS, Prior, StandardNormal
from flowbert.options import FlowOptions, GlowOptions

__all__ = [
    "COUPLINGS",
    "MIXINGS",
    "MIXING_INITS",
    "PRIORS",
    "ActNorm",
    "AdditiveCoupling",
    "AffineCoupling",
    "Bijection",
    "Composition",
    "CouplingNet",
    "DataInitialized",
    "FlowOptions",
    "FullPrecision",
    "Glow",
    "GlowOptions",
    "LULinear",
    "Prior",
    "RandomPermutation",
    "Reverse",
    "StandardNormal",
    "WhiteningLayer",
    "bits_per_dim",
]
