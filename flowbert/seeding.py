"""Everything random: one stream of numbers for each (seed, name, epoch, batch, rank), and no two streams alike."""

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

STREAMS = {
    "split": "which sentences are held out",
    "subset": "which examples of a corpus are taken",
    "sample": "which of the fitting examples stand for all in a validation",
    "order": "order of the examples in an epoch",
    "start sample": "rows that drive the flow's data-dependent start",
    "start noise": "noise in dimensions that hardly vary, at that start",
    "noise": "noise on the embeddings while a flow is fitted",
    "dropout": "torch's own generators, and so the dropout masks of a training step",
    "masks": "tokens to predict in a training step",
    "validation masks": "tokens to predict in a validation batch",
    "edit": "edit that makes the positive of an example",
    "views": "words that the view of a sentence lacks",
    "flow": "start of a flow; the batch is the number of a layer",
    "mixing": "start of one mixing",
    "coupling": "start of one coupling",
    "head": "start of a contrastive head",
    "classifier": "start of Sentence-BERT's classifier",
    "network": "start of an encoder, or of prediction layers that a checkpoint lacks",
    "bootstrap": "resamples of a task; the batch is the number of a block",
    "hashes": "numbers that rows are multiplied with to tell them apart",
    "uniformity": "sentences that stand for all in a sampled uniformity",
    "hubness": "vectors that stand for all in a sampled hubness",
    "map": "start of a UMAP",
}
"""The streams by name, and what is drawn from each."""

_STATE = np.dtype(  # torch's own layout of a CPU generator's state; what follows it stays as it is
    [("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", 624)]
)


@dataclass(frozen=True)
class Stream:
    """Random numbers that depend on these values and on nothing else, so that a resumed run draws what it would have.

    The values are hashed together (BLAKE2b, 128 bits): streams whose values differ anywhere share nothing, whatever
    the numbers are.

    Args:
        seed: Seed of the run.
        name: One of :data:`STREAMS`.
        epoch: Epoch, from 0.
        batch: Batch in the epoch, or whatever is counted, from 0.
        rank: Number of the process; 0 for what all processes draw alike.
        of: What is drawn for, where there are several, such as a task's name.

    Raises:
        ValueError: If the name is unknown.

    Example:
        >>> Stream(0, "order", epoch=1).rng().permutation(4).tolist()
        [2, 1, 3, 0]
        >>> Stream(0, "order", epoch=1).rng().permutation(4).tolist()
        [2, 1, 3, 0]
    """

    seed: int
    name: str
    epoch: int = 0
    batch: int = 0
    rank: int = 0
    of: str = ""

    def __post_init__(self) -> None:
        if self.name not in STREAMS:
            raise ValueError(f"unknown stream {self.name!r}; allowed: {', '.join(STREAMS)}")

    @property
    def entropy(self) -> int:
        """The stream's own number, 128 bits."""
        values = [int(self.seed), self.name, int(self.epoch), int(self.batch), int(self.rank), self.of]
        return int.from_bytes(hashlib.blake2b(json.dumps(values).encode(), digest_size=16).digest())

    @property
    def number(self) -> int:
        """63 bits of it, for what takes a seed."""
        return self.entropy >> 65

    def rng(self) -> np.random.Generator:
        """A generator of numpy."""
        return np.random.default_rng(self.entropy)

    def python(self) -> random.Random:
        """A generator of the standard library."""
        return random.Random(self.entropy)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator of torch on a device."""
        generator = torch.Generator(device).manual_seed(self.number)
        if generator.device.type == "cpu":
            generator.set_state(self._cpu_state())
        return generator

    def seed_torch(self, device: torch.device | str = "cpu") -> None:
        """Set torch's own generators, of the CPU and of a device: dropout draws from them."""
        torch.set_rng_state(self._cpu_state())
        if torch.device(device).type != "cpu":
            torch.get_device_module(device).manual_seed(self.number)

    @contextmanager
    def as_torch(self) -> Iterator[None]:
        """Draw torch's numbers on the CPU from this stream meanwhile; the state before comes back."""
        with torch.random.fork_rng(devices=[]):
            self.seed_torch()
            yield

    def _cpu_state(self) -> torch.Tensor:
        # torch takes 32 bits of a seed on the CPU, so that some of 10,000 streams would be equal: fill all its words.
        state = torch.Generator().get_state()
        header = state.numpy()[: _STATE.itemsize].view(_STATE)
        header["words"] = np.random.SeedSequence(self.entropy).generate_state(624)
        return state
