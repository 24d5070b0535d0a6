"""What tests of several rooms share."""

from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from flowbert.data.scored_pairs import STSData, Subset
from flowbert.errors import FlowbertWarning, UserError
from flowbert.tasks import STS


def rows(count=200, dim=6, seed=0):
    """Rows with different variances, correlated, off the origin: ``(count, dim)``."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, dim)) @ rng.normal(size=(dim, dim)) + 3


def normal(count, dim, seed=0):
    """Independent standard normal numbers, float64: ``(count, dim)``."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, generator=generator, dtype=torch.float64)


def pairs_of(x):
    """Halves of the rows as pairs with different scores."""
    half = len(x) // 2
    return x[:half], x[half : 2 * half], np.linspace(0, 5, half)


def fit(estimator, x):
    """The map fitted on rows, and on labelled pairs where it learns from them."""
    return estimator.fit(x, pairs=pairs_of(x) if estimator.supervised else None)


def scored(splits, split="dev", limits=None, **options):
    """A task T of a split, with the scores of each split."""
    subsets = {}
    for part, scores in splits.items():
        first, second = (
            tuple(f"{part} {x}{n}" for n in range(len(scores))) for x in "ab"
        )
        subsets[part] = [Subset("T", first, second, np.array(scores, dtype=np.float64))]
    return STS(STSData("T", subsets, limits), split, **options)


def refused(message, call, /, *given, **options):
    """A call is a mistake of the user, told in one line."""
    with pytest.raises(UserError, match=message) as caught:
        call(*given, **options)
    assert "\n" not in str(caught.value)


def with_slow(cases, quick):
    """Cases of a test, of which all but the quick ones are left to the slow run."""
    slow = pytest.mark.slow
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else [case]),
            marks=[] if case in quick else slow,
        )
        for case in cases
    ]


def warned(message):
    """A context with a warning of this package."""
    return pytest.warns(FlowbertWarning, match=message)


def draw_nothing(monkeypatch):
    """Leave the files of pictures empty: to draw them takes most of the time of a page."""

    def save(_, file, **__):
        if isinstance(file, Path):
            file.touch()

    monkeypatch.setattr(Figure, "savefig", save)


COMMIT = "0123456789" * 4


def use_hub_cache(folder, model, monkeypatch):
    """Read models of the hub from a folder, offline; where a commit of one of them is."""
    repository = folder / f"models--{model.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    # The copy of transformers 4.
    name = "transformers.utils.hub.TRANSFORMERS_CACHE"
    monkeypatch.setattr(name, str(folder), raising=False)
    return repository / "snapshots" / COMMIT
