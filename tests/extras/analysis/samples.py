"""Vectors of three methods, and an analysis with everything that is measured of them."""

import numpy as np
import torch

from flowbert.encoders import SentenceEncoder
from flowbert.extras.analysis import Sample, analyze_sample
from flowbert.flows import Glow

METHODS = ("raw", "whitening", "flow")
N = 60


def vectors(count=N):
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    return {"raw": x + 2, "whitening": x - x.mean(dim=0), "flow": x}


def texts(count=N):
    return [f"sentence number {i}" * (1 + i % 7) for i in range(count)]


def make_analysis():
    x, rng = vectors()["flow"], np.random.default_rng(0)
    cosines = {method: rng.uniform(-0.5, 0.5, 40) for method in METHODS}
    flow = Glow(6, levels=1)
    flow.initialize(x)
    sample = Sample(
        texts(),
        vectors(),
        {"STSB test": (rng.uniform(0, 4.9, 40), cosines)},
        encoder=SentenceEncoder("builtin-sample"),
        tokens=20,
        flows={"flow": flow},
        fitting=x[:40],
        held_out=x[40:],
    )
    return analyze_sample(sample, {"encoder": "bert", "corpus": "target"})
