"""A random encoder, maps of its vectors, and the cosines that an export must keep."""

import numpy as np
import torch
from sklearn.metrics.pairwise import cosine_similarity

from encoders.tiny import WORDS
from flowbert.flows import Glow
from flowbert.maps import MAPS, Chain, Flow, make_map
from flowbert.maps.state import pack
from flowbert.model import Model
from helpers import fit

FLOW = "flow:levels=2:depth=2:width=5"
AFFINE = [name for name in MAPS if name not in ("flow", "views")]
CHAINS = ["standardization+whitening-6", FLOW, f"whitening-9+{FLOW}+standardization"]


def make_texts(count=200):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 13, size=count)
    return [" ".join(rng.choice(WORDS, size=length)) for length in lengths]


TEXTS = make_texts()


def moved_flow(rows, **options):
    """A flow whose every parameter is off its start, so that no layer is the identity."""
    flow = Glow(rows.shape[1], **options)
    flow.initialize(torch.as_tensor(rows).float())
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    values = {"flow_": flow, "seed_": 0, "n_features_in_": flow.dim}
    return Flow().set_state(pack(values))


def fit_map(name, rows):
    """A map that is fitted step by step; no flow is trained."""
    steps = make_map(name).parts
    for number, step in enumerate(steps):
        if isinstance(step, Flow):
            steps[number] = moved_flow(rows, **step.glow())
        else:
            fit(step, rows)
        rows = steps[number].transform(rows)
    return steps[0] if len(steps) == 1 else Chain.of(*steps)


def model_of(encoder, name=None):
    """An encoder with a map of its vectors, or none."""
    rows = None if name is None else encoder.encode(TEXTS)
    return Model(encoder, None if name is None else fit_map(name, rows))


def largest_difference(first, second):
    """Largest difference of a cosine."""
    cosines = [cosine_similarity(x.astype(np.float64)) for x in (first, second)]
    return float(np.abs(cosines[0] - cosines[1]).max())
