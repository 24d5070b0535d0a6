"""Lightning data modules for training an encoder: pairs and triples of sentences beside the STS tasks."""

import copy
import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.data.augment import EDITS, MaskedReplacement, edit_sentence
from flowbert.data.base import CorpusDataModule
from flowbert.data.bucketing import BatchDataset, LengthBuckets, pack
from flowbert.data.corpus import Corpus, load_corpus, sentences_digest
from flowbert.data.module import Sentences, split_held_out
from flowbert.data.nli import LABELS, load_nli
from flowbert.data.readers import read_sentences
from flowbert.data.store import Encoder
from flowbert.data.sts import load_task
from flowbert.errors import UserError, choices

POSITIVES = ("dropout", *EDITS, "next_sentence", "mlm", "entailment")
SIAMESE = ("nli", "sts", "nli_triples")
_MAX_SCORE = 5.0
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
        chosen = sorted(random.Random(seed).sample(range(len(self)), size))
        targets = None if self.targets is None else self.targets[chosen]
        return Examples(self.name, tuple(tuple(s[i] for i in chosen) for s in self.sides), targets)

    def digest(self) -> str:
        """Digest of all sentences, side after side, and targets."""
        targets = [] if self.targets is None else [str(value) for value in self.targets.tolist()]
        return sentences_digest([*(sentence for side in self.sides for sentence in side), *targets])


class ExampleDataModule(CorpusDataModule):
    """What both data modules share: batches of packed token features, and the STS tasks.

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
        if h["batch_size"] < 2:
            raise UserError(f"data.batch_size: received {h['batch_size']}, no negatives; allowed: at least 2")
        for option in ("max_sentences", "pool", "max_length"):
            if h[option] is not None and h[option] < 1:
                raise UserError(f"data.{option}: received {h[option]}; allowed: at least 1")
        if not 0 <= h["held_out"] <= 0.5:
            raise UserError(f"data.held_out: received {h['held_out']}; allowed: 0 to 0.5, a share of the examples")
        self.batch_size: int = h["batch_size"]
        self.seed: int = h["seed"]

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
                f"on; allowed: 2 to {there // processes}"
            )

    def setup(self, stage: str) -> None:
        """Read what :meth:`load` reads, if it was not called."""
        self._connected()
        self.load()
        self._check_size(self._loaded(), self._processes()[1])

    def _connected(self) -> tuple[TokenEncoder, TokenEncoder]:
        """The encoder as it is, and as it cuts sentences in training."""
        if self._whole is None or self._short is None:
            raise UserError("data: no encoder was given; call connect(encoder) before the trainer runs")
        return self._whole, self._short

    def _processes(self) -> tuple[int, int]:
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

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
        return self._loaded().digest()

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
        """Token features of some examples, packed; see the class."""
        sides = self.sides(epoch, indices)
        chunks, places = pack(self._connected()[1].tokenize([sentence for side in sides for sentence in side]))
        batch: Batch = {"chunks": chunks, "places": places.reshape(len(sides), -1)}
        targets = self._loaded().targets
        if targets is not None:
            batch["targets"] = torch.from_numpy(targets[np.asarray(indices)])
        return batch

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches, sentences of similar length together."""
        rank, world_size = self._processes()
        index = self._fit_index
        sampler = LengthBuckets(
            self._lengths(index), self.batch_size, self.hparams["pool"], self.seed, rank, world_size
        )
        dataset = BatchDataset(lambda epoch, chosen: self.batch(epoch, index[chosen].tolist()))
        return DataLoader(dataset, batch_size=None, sampler=sampler)

    def _lengths(self, index: npt.NDArray[np.int64]) -> list[int]:
        """Tokens of some examples, all their sides together."""
        if self.hparams["pool"] == 1:
            return [0] * len(index)
        lengths = self._connected()[1].lengths
        sides = [lengths([side[i] for i in index]) for side in dict.fromkeys(self._loaded().sides)]
        return [sum(tokens) for tokens in zip(*sides, strict=True)]

    def val_dataloader(self) -> DataLoader[Any]:
        """Fixed batches of held-out examples; of fitting ones if fewer than 2 are held out."""
        index = self._held_index if len(self._held_index) > 1 else self._fit_index
        chosen = np.sort(np.random.default_rng(self.seed).permutation(index)[:_VALIDATION])
        size = min(self.batch_size, len(chosen))
        keys = [(0, chosen[start : start + size].tolist()) for start in range(0, len(chosen) - size + 1, size)]
        return DataLoader(BatchDataset(self.batch), batch_size=None, sampler=keys)

    def test_dataloader(self) -> DataLoader[Any]:
        """The same batches as in validation."""
        return self.val_dataloader()

    def predict_dataloader(self) -> DataLoader[Any]:
        """Lists of sentences of the file ``predict``, or of the examples' first side, in order."""
        path = self.hparams["predict"]
        sentences = self._loaded().sides[0] if path is None else read_sentences(path).sentences
        return DataLoader(Sentences(list(sentences)), batch_size=_CHUNK, collate_fn=list)


class ContrastiveDataModule(ExampleDataModule):
    """Sentences with a positive, and perhaps a hard negative, for SimCSE.

    Args:
        corpus: Sentences as in :func:`flowbert.data.corpus.load_corpus` (``target``, ``train_only``, ``nli``,
            ``builtin-sample``, files, ``hub:NAME``). With ``positive=entailment`` it must be ``nli``.
        positive: What each sentence's positive is: ``dropout`` (the sentence itself, under another dropout mask);
            ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it); ``next_sentence`` (of the corpus); ``mlm``
            (words replaced by a masked language model); ``entailment`` (an NLI premise's entailed hypothesis).
        positive_rate: Share of the words that ``crop``, ``word_deletion`` and ``mlm`` change, in (0, 1).
        mlm_path: The masked language model for ``positive=mlm``: a folder or hub name.
        hard_negatives: With ``entailment``: also take the premise's contradiction, as a negative; premises without one
            are left out.
        task: The STS task whose sentences ``target`` and ``train_only`` mean.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are: ``builtin-sample``, ``hub``, or jsonl/csv/tsv/parquet files.
        column: Column of the sentences when ``corpus`` is a table.
        max_sentences: Train on a random subset of this many examples; default: all.
        held_out: Share of the distinct sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Examples per step and process; each is a negative of the others. Accumulated gradients
            (``trainer.accumulate_grad_batches``) average over batches and add no negatives: ``model.chunk_size`` is
            the way to a large batch on little memory.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose sentences are sorted by length together, so that little padding is computed; the negatives
            then are of about the same length. 1: plain random batches.
        predict: Text file whose sentences ``predict`` embeds; default: the corpus.
        seed: Seed of the subset, the held-out split, the edits and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        corpus: str = "target",
        positive: str = "dropout",
        positive_rate: float = 0.1,
        mlm_path: str | None = None,
        hard_negatives: bool = True,
        task: str = "SAMPLE",
        eval_tasks: list[str] | None = None,
        senteval: str | None = None,
        nli: str = "builtin-sample",
        column: str | None = None,
        max_sentences: int | None = None,
        held_out: float = 0.0,
        batch_size: int = 64,
        max_length: int = 32,
        pool: int = 32,
        predict: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if positive not in POSITIVES:
            raise UserError(f"data.positive: received {positive!r}; {choices(POSITIVES, positive)}")
        if not 0 < positive_rate < 1:
            raise UserError(f"data.positive_rate: received {positive_rate}; allowed: above 0 and below 1")
        if positive == "entailment" and corpus != "nli":
            raise UserError(f"data.positive: 'entailment' needs data.corpus nli, received {corpus!r}; allowed: nli")
        if positive == "mlm" and mlm_path is None:
            raise UserError("data.mlm_path: received nothing with data.positive mlm; allowed: a masked language model")
        self.save_hyperparameters(logger=False)
        self._check_shared()
        self._replacement: MaskedReplacement | None = None

    @property
    def positive(self) -> str:
        """What each sentence's positive is."""
        return str(self.hparams["positive"])

    def load(self) -> None:
        """Read examples and tasks, and the masked language model if there is one."""
        super().load()
        if self.positive == "mlm" and self._replacement is None:
            self._replacement = MaskedReplacement(self.hparams["mlm_path"], self.hparams["positive_rate"])

    def read_examples(self) -> Examples:
        """Sentences with themselves or with what follows them, or NLI pairs or triples."""
        h = self.hparams
        if self.positive == "entailment":
            return _nli_triples(h["nli"]) if h["hard_negatives"] else _nli_entailments(h["nli"])
        corpus = load_corpus(h["corpus"], task=h["task"], senteval=h["senteval"], nli=h["nli"], column=h["column"])
        if self.positive == "next_sentence":
            return Examples(f"{corpus.name}, next sentence", (corpus.sentences[:-1], corpus.sentences[1:]))
        name = corpus.name if self.positive == "dropout" else f"{corpus.name}, {self.positive}"
        return Examples(name, (corpus.sentences, corpus.sentences))

    def sides(self, epoch: int, indices: Sequence[int]) -> list[list[str]]:
        """Anchors and positives, the latter edited by seed, epoch and example alone."""
        sides = super().sides(epoch, indices)
        rngs = [random.Random(f"positive {self.seed} {epoch} {i}") for i in indices]
        if self._replacement is not None:
            sides[1] = self._replacement(sides[1], rngs)
        elif self.positive in EDITS:
            rate = self.hparams["positive_rate"]
            pairs = zip(sides[1], rngs, strict=True)
            sides[1] = [edit_sentence(sentence, self.positive, rate, rng) for sentence, rng in pairs]
        return sides


class SiameseDataModule(ExampleDataModule):
    """Labelled pairs, or triples, for Sentence-BERT.

    Args:
        source: ``nli`` (pairs with the class entailment, neutral or contradiction, for the softmax objective), ``sts``
            (the train split of ``task``, wanted cosine = score / 5, for cosine regression), or ``nli_triples``
            (premise, entailment, contradiction, for the triplet objective).
        task: The STS task of ``source=sts``, and of the evaluation unless ``eval_tasks`` says otherwise.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are: ``builtin-sample``, ``hub``, or jsonl/csv/tsv/parquet files.
        max_sentences: Train on a random subset of this many pairs or triples; default: all.
        held_out: Share of the distinct first sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Pairs or triples per step and process.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose sentences are sorted by length together; 1: plain random batches.
        predict: Text file whose sentences ``predict`` embeds; default: the first sentences.
        seed: Seed of the subset, the held-out split and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        source: str = "nli",
        task: str = "SAMPLE",
        eval_tasks: list[str] | None = None,
        senteval: str | None = None,
        nli: str = "builtin-sample",
        max_sentences: int | None = None,
        held_out: float = 0.0,
        batch_size: int = 16,
        max_length: int = 128,
        pool: int = 32,
        predict: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if source not in SIAMESE:
            raise UserError(f"data.source: received {source!r}; {choices(SIAMESE, source)}")
        self.save_hyperparameters(logger=False)
        self._check_shared()

    @property
    def source(self) -> str:
        """What the pairs are: ``nli``, ``sts`` or ``nli_triples``."""
        return str(self.hparams["source"])

    def read_examples(self) -> Examples:
        """Pairs with their class or wanted cosine, or triples."""
        h = self.hparams
        if self.source == "nli_triples":
            return _nli_triples(h["nli"])
        if self.source == "nli":
            data = load_nli(h["nli"])
            return Examples("nli", (data.premises, data.hypotheses), np.array([LABELS.index(x) for x in data.labels]))
        subsets = load_task(h["task"], h["senteval"]).split("train")
        first = tuple(sentence for subset in subsets for sentence in subset.sentences1)
        second = tuple(sentence for subset in subsets for sentence in subset.sentences2)
        scores = np.concatenate([subset.scores for subset in subsets]) / _MAX_SCORE
        return Examples(f"{h['task']} train", (first, second), scores.astype(np.float32))


def _nli_triples(source: str) -> Examples:
    triples = load_nli(source).triples()
    if not triples:
        raise UserError(
            f"data.nli: {source} has no premise with both an entailment and a contradiction; allowed: NLI data with "
            "such triples, or data.hard_negatives false"
        )
    anchors, positives, negatives = zip(*triples, strict=True)
    return Examples("nli triples", (anchors, positives, negatives))


def _nli_entailments(source: str) -> Examples:
    data = load_nli(source)
    rows = [i for i, label in enumerate(data.labels) if label == "entailment"]
    if not rows:
        raise UserError(f"data.nli: {source} has no entailment; allowed: NLI data with entailments")
    return Examples("nli entailments", (tuple(data.premises[i] for i in rows), tuple(data.hypotheses[i] for i in rows)))
