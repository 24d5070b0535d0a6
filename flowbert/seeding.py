"""Random numbers by name: one independent stream per (seed, name, epoch, batch, rank)."""

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Stream:
    """Random numbers that depend only on these values, so that a resumed run draws them again.

    The values are hashed together (BLAKE2b, 128 bits), so that different streams are independent.

    Args:
        seed: Seed of the run.
        name: Use of the numbers, such as ``"order"`` or ``"noise"``.
        epoch: Epoch, from 0.
        batch: Batch in the epoch, from 0.
        rank: Rank of the process; 0 if all processes draw the same numbers.
        of: Additional name, such as the name of a task.

    Example:
        >>> Stream(0, "order", epoch=1).rng().permutation(4).tolist()
        [2, 1, 3, 0]
    """

    seed: int
    name: str
    epoch: int = 0
    batch: int = 0
    rank: int = 0
    of: str = ""

    @property
    def entropy(self) -> int:
        """128 bits that identify the stream."""
        values = json.dumps(
            list(vars(self).values()), default=int
        )  # of numpy's integers
        digest = hashlib.blake2b(values.encode(), digest_size=16).digest()
        return int.from_bytes(digest)

    @property
    def number(self) -> int:
        """63 bits of the entropy, for libraries that take a seed."""
        return self.entropy >> 65

    def rng(self) -> np.random.Generator:
        """A numpy generator."""
        return np.random.default_rng(self.entropy)

    def python(self) -> random.Random:
        """A generator of the standard library."""
        return random.Random(self.entropy)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A torch generator on a device; on the CPU torch uses 32 bits of the seed."""
        return torch.Generator(device).manual_seed(self.number)

    def seed_torch(self) -> None:
        """Seed torch's global generators of all devices; dropout draws from them."""
        torch.manual_seed(self.number)

    @contextmanager
    def torch(self) -> Iterator[None]:
        """Seed torch's global CPU generator inside the context and restore it after."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.number)
            yield
