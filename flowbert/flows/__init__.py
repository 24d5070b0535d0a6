"""Normalizing flows on vectors; torch only. Forward maps data to latent, inverse maps latent to data."""

from flowbert.flows.actnorm import ActNorm
from flowbert.flows.bijection import Bijection, Chain, FullPrecision
from flowbert.flows.coupling import AdditiveCoupling, AffineCoupling
from flowbert.flows.glow import Glow
from flowbert.flows.mixing import LULinear, RandomPermutation, Reverse
from flowbert.flows.serialization import load_flow, save_flow

__all__ = [
    "ActNorm",
    "AdditiveCoupling",
    "AffineCoupling",
    "Bijection",
    "Chain",
    "FullPrecision",
    "Glow",
    "LULinear",
    "RandomPermutation",
    "Reverse",
    "load_flow",
    "save_flow",
]
