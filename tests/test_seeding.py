"""One rule for everything random: no two streams are alike, and each is the same every time."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flowbert.seeding import STREAMS, Stream

GRID = [
    Stream(seed, name, epoch, batch, rank)
    for seed, name, epoch, batch, rank in itertools.product(
        (0, 1, 2, 2**31, 2**32 - 1), STREAMS, (0, 1, 2), (0, 1, 2, 1_000_003), (0, 1, 2)
    )
]


@pytest.mark.parametrize("draw", ["torch", "numpy", "python", "global", "number"])
def test_no_two_streams_are_alike(draw: str) -> None:
    def values(stream: Stream) -> bytes:
        if draw == "torch":
            return torch.rand(4, generator=stream.generator()).numpy().tobytes()
        if draw == "global":
            stream.seed_torch()
            return torch.rand(4).numpy().tobytes()
        if draw == "numpy":
            return stream.rng().random(4, dtype=np.float32).tobytes()
        return str(stream.number if draw == "number" else [stream.python().random() for _ in range(4)]).encode()

    assert len({values(stream) for stream in GRID}) == len(GRID) > 3000


def test_a_stream_is_the_same_every_time_and_leaves_the_callers_randomness_alone() -> None:
    stream = Stream(3, "noise", 1, 2, 0)
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    first = torch.randn(100, generator=stream.generator())
    with stream.as_torch():
        inside = torch.randn(100)
    assert torch.equal(first, inside)
    assert torch.equal(first, torch.randn(100, generator=stream.generator()))
    assert torch.equal(torch.rand(2), expected)


def test_a_used_generator_starts_anew() -> None:
    """Whatever was drawn before, half-used pairs of normal numbers too, plays no role."""
    stream = Stream(0, "dropout")
    stream.seed_torch()
    expected = torch.randn(3), torch.rand(5)
    torch.randn(1)
    torch.randn(1, dtype=torch.float64)
    stream.seed_torch()
    assert all(torch.equal(a, b) for a, b in zip(expected, (torch.randn(3), torch.rand(5)), strict=True))


def test_numbers_of_a_torch_stream_are_uniform_and_normal() -> None:
    """The layout of the state that is written is still torch's."""
    generator = Stream(0, "noise").generator()
    uniform, normal = torch.rand(200_000, generator=generator), torch.randn(200_000, generator=generator)
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.005)
    assert normal.mean().item() == pytest.approx(0.0, abs=0.01)
    assert normal.std().item() == pytest.approx(1.0, abs=0.01)
    words: Any = np.random.SeedSequence(Stream(0, "noise").entropy).generate_state(624)
    reference = np.random.MT19937()
    reference.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    drawn = [
        torch.rand((), generator=generator).item() for generator in [Stream(0, "noise").generator()] for _ in "abc"
    ]
    assert drawn == [(word % 2**24) / 2**24 for word in reference.random_raw(3).tolist()]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown stream 'nosie'"):
        Stream(0, "nosie")


def test_nothing_else_seeds_a_generator() -> None:
    """A second rule would be a second chance to draw the same numbers twice."""
    root = Path(__file__).parents[1] / "flowbert"
    words = ("manual_seed(", "default_rng(", "random.Random(", "SeedSequence(", "np.random.seed", "RandomState(")
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(word in line for word in words) and not line.lstrip().startswith((">>>", "..."))
    }
    assert found == {"seeding.py"}
