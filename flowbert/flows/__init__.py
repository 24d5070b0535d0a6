"""Normalizing flows on vectors; torch only. Forward maps data to latent, inverse maps latent to data."""

from flowbert.flows.actnorm import ActNorm as ActNorm
from flowbert.flows.bijection import Bijection as Bijection
from flowbert.flows.bijection import Chain as Chain
from flowbert.flows.bijection import FullPrecision as FullPrecision
from flowbert.flows.coupling import AdditiveCoupling as AdditiveCoupling
from flowbert.flows.coupling import AffineCoupling as AffineCoupling
from flowbert.flows.glow import Glow as Glow
from flowbert.flows.mixing import LULinear as LULinear
from flowbert.flows.mixing import RandomPermutation as RandomPermutation
from flowbert.flows.mixing import Reverse as Reverse
from flowbert.flows.serialization import load_flow as load_flow
from flowbert.flows.serialization import save_flow as save_flow
