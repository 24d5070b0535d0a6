"""Random numbers by name: no two streams are alike, and each is always the same."""

import itertools

import pytest
import torch

from flowbert.seeding import Stream

GRID = [
    Stream(*values)
    for values in itertools.product(
        (0, 1, 2**31, 2**63 - 1), ("order", "noise"), (0, 1), (0, 2), (0, 1), ("", "a")
    )
]


def draw_global(stream):
    with stream.torch():
        return torch.rand(4).numpy().tobytes()


DRAWS = {
    "torch": lambda stream: (
        torch.rand(4, generator=stream.generator()).numpy().tobytes()
    ),
    "global": draw_global,
    "numpy": lambda stream: stream.rng().random(4).tobytes(),
    "python": lambda stream: stream.python().random(),
    "number": lambda stream: stream.number,
}


@pytest.mark.parametrize("draw", DRAWS)
def test_streams_differ_and_are_reproducible(draw):
    values = [DRAWS[draw](stream) for stream in GRID]
    assert len(set(values)) == len(GRID)
    assert values == [DRAWS[draw](stream) for stream in GRID]


def test_global_state_is_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    draw_global(GRID[0])
    assert torch.equal(torch.rand(2), expected)
    GRID[0].seed_torch()
    expected = torch.rand(4)
    assert expected.numpy().tobytes() == draw_global(GRID[0])
