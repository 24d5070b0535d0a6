"""What the data modules that train an encoder share: examples, batches of token features, the STS tasks."""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.data.readers import read_sentences
from flowbert.data.sts import load_task
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.batches import cut_by_length, in_order
from flowbert.datamodules.embedding import split_held_out
from flowbert.errors import UserError
from flowbert.seeding import Stream
from flowbert.store.embedding_store import Encoder

_CHUNK = 8192  # sentences per block when a whole corpus streams by
_VALIDATION = 1024  # examples at most: the loss there is a side figure

Batch = dict[str, Any]


@runtime_checkable
class TokenEncoder(Encoder, Protocol):
    """What these modules ask of an encoder beyond its embeddings."""

    max_length: int

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Padded token features, each ``(B, T)``."""
        ...

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """Tokens of each sentence."""
        ...


@dataclass(frozen=True, eq=False)
class Examples:
    """What is trained on: N pairs or triples, side by side.

    Args:
        name: What they are, for tables.
        sides: Two or three tuples of N sentences: first and second ones; or anchors, positives and negatives.
        targets: Class (int64) or wanted cosine (float32) of each pair, ``(N,)``; None where there is none.
    """

    name: str
    sides: tuple[tuple[str, ...], ...]
    targets: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.sides[0])

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement by ``seed``, in their old order."""
        if size >= len(self):
            return self
        chosen = sorted(Stream(seed, "subset").python().sample(range(len(self)), size))
        targets = None if self.targets is None else self.targets[chosen]
        return Examples(self.name, tuple(tuple(s[i] for i in chosen) for s in self.sides), targets)

    @cached_property
    def digest(self) -> str:
        """Digest of all sentences, side after side, and targets."""
        targets = [] if self.targets is None else [str(value) for value in self.targets.tolist()]
        return sentences_digest([*(sentence for side in self.sides for sentence in side), *targets])


class ExampleDataModule(CorpusDataModule):
    """What these data modules share: batches of token features in chunks of like length, and the STS tasks.

    A batch has ``chunks``, token features of sentences of similar length; ``places``, shape ``(G, B)``: where sentence
    b of side g is in the concatenated chunks; and ``targets``, shape ``(B,)``, where there are any.
    G: sides (2 or 3), B: examples.
    """

    def __init__(self) -> None:
        super().__init__()
        self._whole: TokenEncoder | None = None
        self._short: TokenEncoder | None = None
        self.examples: Examples | None = None

    def _check_shared(self) -> None:
        h = self.hparams
        for option in ("batch_size", "max_sentences", "pool", "max_length"):
            if h[option] is not None and h[option] < 1:
                raise UserError(f"data.{option}: received {h[option]}; allowed: at least 1")
        if not 0 <= h["held_out"] <= 0.5:
            raise UserError(f"data.held_out: received {h['held_out']}; allowed: 0 to 0.5, a share of the examples")
        self.batch_size, self.seed = h["batch_size"], h["seed"]

    # ---------------------------------------------------------------- set-up

    @abstractmethod
    def read_examples(self) -> Examples:
        """Read what is trained on."""

    def connect(self, encoder: Encoder) -> None:
        """Give the encoder that is being trained; sentences are cut at ``max_length`` in training batches alone.

        Raises:
            UserError: If it does not tokenize.
        """
        if not isinstance(encoder, TokenEncoder):
            raise UserError(f"data: received {type(encoder).__name__}; allowed: an encoder that tokenizes")
        super().connect(encoder)
        self._whole = encoder
        # A second view of the same encoder: a length of its own, the same tokenizer and weights.
        self._short = copy.copy(encoder)
        self._short.max_length = min(self.hparams["max_length"], encoder.max_length)

    def load(self) -> None:
        """Read examples and tasks; a mistake in an option or file shows here, early."""
        if self.examples is not None:
            return
        h = self.hparams
        self.tasks = [load_task(name, h["senteval"]) for name in h["eval_tasks"] or [h["task"]]]
        examples = self.read_examples()
        if h["max_sentences"] is not None:
            examples = examples.sample(h["max_sentences"], self.seed)
        self._fit_index, self._held_index = split_held_out(examples.sides[0], h["held_out"], self.seed)
        self._check_size(examples, 1)
        self.corpus = Corpus.of(
            examples.name, (sentence for side in dict.fromkeys(examples.sides) for sentence in side)
        )
        self.examples = examples

    def _check_size(self, examples: Examples, processes: int) -> None:
        wanted, there = self.batch_size * processes, len(self._fit_index)
        if there < wanted:
            times = f" times {processes} processes" if processes > 1 else ""
            raise UserError(
                f"data.batch_size: received {self.batch_size}{times}, but {examples.name} has {there} examples to fit "
                f"on; allowed: at most {there // processes}"
            )

    def setup(self, stage: str) -> None:
        """Read what :meth:`load` reads, if it was not called."""
        self._connect_to_trainer()
        self.load()
        self._check_size(self._loaded(), self._processes()[1])

    def _connected(self) -> tuple[TokenEncoder, TokenEncoder]:
        """The encoder as it is, and as it cuts sentences in training."""
        if self._whole is None or self._short is None:
            raise RuntimeError("the data module has no encoder")
        return self._whole, self._short

    def _loaded(self) -> Examples:
        if self.examples is None:
            raise RuntimeError("the data module was asked for its examples before load()")
        return self.examples

    # ------------------------------------------------------------ embeddings

    @property
    def corpus_name(self) -> str:
        """Name of the examples, for tables."""
        return self._loaded().name

    @property
    def corpus_digest(self) -> str:
        """Digest of the examples in order."""
        return self._loaded().digest

    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings with the encoder's weights of this moment, ``(N, D)``, float32 on the CPU; nothing is kept."""
        return torch.from_numpy(self._connected()[0].encode(list(sentences)))

    def corpus_sentences(self) -> list[str]:
        """Every sentence of the fitting examples, each side's after the other; a repeated side counts once."""
        sides = list(dict.fromkeys(self._loaded().sides))
        return [side[i] for side in sides for i in self._fit_index]

    def corpus_chunks(self) -> Iterator[Tensor]:
        """Embeddings of :meth:`corpus_sentences` in blocks ``(n, D)``, with the weights of this moment."""
        sentences = self.corpus_sentences()
        for start in range(0, len(sentences), _CHUNK):
            yield self.embeddings(sentences[start : start + _CHUNK])

    # --------------------------------------------------------------- batches

    def sides(self, epoch: int, indices: Sequence[int]) -> list[list[str]]:
        """Sentences of some examples, side by side, as they are trained on in this epoch."""
        del epoch
        return [[side[i] for i in indices] for side in self._loaded().sides]

    def batch(self, epoch: int, indices: Sequence[int]) -> Batch:
        """Token features of some examples in chunks; see the class."""
        sides = self.sides(epoch, indices)
        chunks, places = cut_by_length(self._connected()[1].tokenize([sentence for side in sides for sentence in side]))
        batch: Batch = {"chunks": chunks, "places": places.reshape(len(sides), -1)}
        targets = self._loaded().targets
        if targets is not None:
            batch["targets"] = torch.from_numpy(targets[np.asarray(indices)])
        return batch

    def _pool(self) -> int:
        return int(self.hparams["pool"])

    def _lengths(self, index: npt.NDArray[np.int64]) -> Sequence[int]:
        """Tokens of some examples, all their sides together."""
        if self._pool() == 1:
            return super()._lengths(index)
        lengths = self._connected()[1].lengths
        sides = [lengths([side[i] for i in index]) for side in dict.fromkeys(self._loaded().sides)]
        return [sum(tokens) for tokens in zip(*sides, strict=True)]

    def val_dataloader(self) -> DataLoader[Any]:
        """Fixed batches of held-out examples; of fitting ones if fewer than 2 are held out."""
        index = self._held_index if len(self._held_index) > 1 else self._fit_index
        chosen = np.sort(Stream(self.seed, "sample").rng().permutation(index)[:_VALIDATION])
        return in_order(self.batch, chosen, min(self.batch_size, len(chosen)), drop_last=True)

    def test_dataloader(self) -> DataLoader[Any]:
        """The same batches as in validation."""
        return self.val_dataloader()

    def predict_dataloader(self) -> DataLoader[Any]:
        """Lists of sentences of the file ``predict``, or of the examples' first side, in order."""
        path = self.hparams["predict"]
        sentences = self._loaded().sides[0] if path is None else read_sentences(path).sentences
        return in_order(lambda _, chosen: [sentences[i] for i in chosen], np.arange(len(sentences)), _CHUNK)
