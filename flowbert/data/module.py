"""The Lightning data module of the flow: a corpus of frozen embeddings to fit on, and STS tasks to evaluate on."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from flowbert.data.base import CorpusDataModule
from flowbert.data.corpus import load_corpus
from flowbert.data.readers import Sentences as FileSentences
from flowbert.data.readers import read_sentences
from flowbert.data.store import EmbeddingStore, MemoryStore
from flowbert.data.sts import load_task
from flowbert.errors import UserError, choices

STORES = ("disk", "memory", "none")
_CHUNK = 8192  # sentences per block when a whole corpus streams by

Features = dict[str, Tensor]


class EmbeddingRows(Dataset[Tensor]):
    """Rows of an embedding store as a data set; a batch is one gather of shape ``(B, D)``."""

    def __init__(self, take: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]], rows: npt.NDArray[np.int64]):
        self._take = take
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Tensor:
        return torch.from_numpy(self._take(self._rows[np.asarray(indices, dtype=np.int64)]))


class Sentences(Dataset[str]):
    """Plain sentences, for training with the encoder inside the step."""

    def __init__(self, sentences: Sequence[str]):
        self._sentences = sentences

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, index: int) -> str:
        return self._sentences[index]


class EpochShuffle(Sampler[int]):
    """Every index once, in an order that depends on the seed and the epoch alone, so that a resumed run goes on.

    Lightning calls ``set_epoch`` before each epoch.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng([self._seed, self._epoch]).permutation(self._size)
        return iter(order.tolist())


def split_held_out(
    sentences: Sequence[str], fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split occurrences into fitting and held-out ones so that no held-out sentence is also fitted on.

    Args:
        sentences: The corpus, N occurrences.
        fraction: Share of the distinct sentences to hold out, in [0, 1).
        seed: Seed of the choice.

    Returns:
        Indices of the fitting occurrences and of the held-out ones, both rising; together 0..N-1.
    """
    distinct = list(dict.fromkeys(sentences))
    order = np.random.default_rng(seed).permutation(len(distinct))
    held = {distinct[i] for i in order[: round(fraction * len(distinct))]}
    mask = np.fromiter((s in held for s in sentences), dtype=bool, count=len(sentences))
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def _as_is(batch: Any) -> Any:
    return batch


class EmbeddingDataModule(CorpusDataModule):
    """A corpus of sentences as frozen embeddings, each distinct sentence encoded once, beside the STS tasks.

    Args:
        corpus: What to fit on: ``target`` (all splits of ``task``, labels unused), ``train_only``, ``nli``, a text file
            (a sentence a line), a table with ``column``, several of them comma-separated or as a glob, or
            ``hub:NAME`` (``hub:NAME?config=C&split=S&data_files=F`` where needed).
        task: The STS task whose sentences ``target`` and ``train_only`` mean: STS12..STS16, STSB, SICKR, or SAMPLE.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are for ``corpus=nli``: ``builtin-sample``, ``hub``, or a jsonl/csv/tsv/parquet file.
        column: Column of the sentences when ``corpus`` is a table.
        max_sentences: Fit on a random subset of this many sentences; default: all.
        held_out: Share of the distinct sentences kept out of the fit for the held-out likelihood, in [0, 0.5].
        batch_size: Sentences per step.
        start_size: Sentences that drive the data-dependent start of the flow.
        store: ``disk`` (sharded cache, shared between runs), ``memory``, or ``none`` (encoder inside the step).
        store_dir: Folder of the disk store; default: $FLOWBERT_CACHE or ~/.cache/flowbert.
        predict: Text file whose sentences ``predict`` embeds; default: the corpus.
        seed: Seed of the held-out split, the subset, the start sample and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        corpus: str = "target",
        task: str = "SAMPLE",
        eval_tasks: list[str] | None = None,
        senteval: str | None = None,
        nli: str = "builtin-sample",
        column: str | None = None,
        max_sentences: int | None = None,
        held_out: float = 0.02,
        batch_size: int = 64,
        start_size: int = 1024,
        store: str = "disk",
        store_dir: str | None = None,
        predict: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if store not in STORES:
            raise UserError(f"data.store: received {store!r}; {choices(STORES, store)}")
        if not 0 <= held_out <= 0.5:
            raise UserError(f"data.held_out: received {held_out}; allowed: 0 to 0.5, a share of the distinct sentences")
        for option, value in (("batch_size", batch_size), ("start_size", start_size), ("max_sentences", max_sentences)):
            if value is not None and value < 2:
                raise UserError(f"data.{option}: received {value}; allowed: at least 2")
        self.save_hyperparameters(logger=False)
        self.batch_size = batch_size
        self.seed = seed
        self.to_predict: FileSentences | None = None
        self._store: EmbeddingStore | MemoryStore | None = None
        self._corpus_rows = np.empty(0, dtype=np.int64)

    # ---------------------------------------------------------------- set-up

    def load(self) -> None:
        """Read corpus and tasks, nothing encoded yet; a mistake in an option or file shows here, early."""
        if self.corpus is not None:
            return
        h = self.hparams
        _check_store_dir(h["store_dir"])
        if h["predict"] is not None:
            self.to_predict = read_sentences(h["predict"])
        self.tasks = [load_task(name, h["senteval"]) for name in h["eval_tasks"] or [h["task"]]]
        corpus = load_corpus(h["corpus"], task=h["task"], senteval=h["senteval"], nli=h["nli"], column=h["column"])
        if h["max_sentences"] is not None:
            corpus = corpus.sample(h["max_sentences"], seed=self.seed)
        self._fit_index, self._held_index = split_held_out(corpus.sentences, h["held_out"], self.seed)
        if len(self._fit_index) < 2:
            raise UserError(
                f"data.corpus: {corpus.name} has {len(self._fit_index)} sentences to fit on; allowed: at least 2"
            )
        self.corpus = corpus

    def setup(self, stage: str) -> None:
        """Encode what the store lacks, every process its share, and look up the rows."""
        if self._store is not None:
            return
        if self.encoder is None:
            raise UserError("data: no encoder was given; call connect(encoder) before the trainer runs")
        self.load()
        rank, world_size = 0, 1
        if self.trainer is not None:
            rank, world_size = self.trainer.global_rank, self.trainer.world_size
            if isinstance(self.encoder, torch.nn.Module):
                self.encoder.to(self.trainer.strategy.root_device)
        store: EmbeddingStore | MemoryStore
        if self.hparams["store"] == "disk":
            root = self.hparams["store_dir"]
            store = EmbeddingStore(None if root is None else Path(root), self.encoder)
            store.add(self._to_encode(), progress=rank == 0, rank=rank, world_size=world_size)
            if self.trainer is not None:
                self.trainer.strategy.barrier("embedding store")
            store.refresh()
        else:
            store = MemoryStore(self.encoder)
            store.add(self._to_encode(), progress=rank == 0)
        self._store = store
        if self.hparams["store"] != "none":
            self._corpus_rows = store.rows(self.loaded_corpus().sentences)

    def _to_encode(self) -> list[str]:
        evaluated = [(task, [split for split in ("dev", "test") if split in task.splits]) for task in self.tasks]
        sentences = [sentence for task, splits in evaluated for sentence in task.sentences(splits)]
        return sentences if self.hparams["store"] == "none" else [*self.loaded_corpus().sentences, *sentences]

    def _embedder(self) -> EmbeddingStore | MemoryStore:
        if self._store is None:
            raise RuntimeError("the data module was asked for embeddings before setup()")
        return self._store

    # ------------------------------------------------------------ embeddings

    @property
    def corpus_name(self) -> str:
        """Name of the corpus, for tables: ``"target"``."""
        return self.loaded_corpus().name

    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings of any sentences, shape ``(N, D)``, float32 on the CPU; new ones are encoded and kept."""
        return torch.from_numpy(self._embedder().embeddings(sentences))

    def start_sample(self) -> Tensor:
        """The first ``start_size`` fitting sentences of a seeded shuffle, shape ``(n, D)``; equal in all processes."""
        size = min(self.hparams["start_size"], len(self._fit_index))
        chosen = np.random.default_rng(self.seed).permutation(self._fit_index)[:size]
        return self._take(chosen)

    def corpus_chunks(self) -> Iterator[Tensor]:
        """Raw embeddings of the fitting sentences in order, blocks of shape ``(n, D)``, bounded in memory."""
        for start in range(0, len(self._fit_index), _CHUNK):
            yield self._take(self._fit_index[start : start + _CHUNK])

    def _take(self, index: npt.NDArray[np.int64]) -> Tensor:
        if self.hparams["store"] == "none":
            if self.encoder is None:
                raise RuntimeError("the data module has no encoder")
            sentences = self.loaded_corpus().sentences
            return torch.from_numpy(self.encoder.encode([sentences[i] for i in index]))
        return torch.from_numpy(self._embedder().take(self._corpus_rows[index]))

    # --------------------------------------------------------------- loaders

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches: embeddings ``(B, D)``, or token features when the encoder runs inside the step."""
        return self._loader(self._fit_index, shuffle=True)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Two likelihood samples: fitting sentences (at most as many as held out or 2,048) and held-out ones."""
        size = min(len(self._fit_index), max(2048, len(self._held_index)))
        fitting = np.sort(np.random.default_rng(self.seed).permutation(self._fit_index)[:size])
        loaders = [self._loader(fitting, shuffle=False)]
        if len(self._held_index):
            loaders.append(self._loader(self._held_index, shuffle=False))
        return loaders

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """The same two samples as in validation."""
        return self.val_dataloader()

    def predict_dataloader(self) -> DataLoader[Any]:
        """Embeddings of the file ``predict``, or of the whole corpus, in order."""
        sentences = self.loaded_corpus().sentences if self.to_predict is None else self.to_predict.sentences
        store = self._embedder()
        store.add(sentences)
        return DataLoader(
            EmbeddingRows(store.take, store.rows(sentences)), batch_size=self.batch_size, collate_fn=_as_is
        )

    def _loader(self, index: npt.NDArray[np.int64], *, shuffle: bool) -> DataLoader[Any]:
        dataset: Dataset[Any]
        collate: Callable[[Any], Any]
        if self.hparams["store"] == "none":
            sentences = self.loaded_corpus().sentences
            dataset, collate = Sentences([sentences[i] for i in index]), self._tokenize
        else:
            dataset, collate = EmbeddingRows(self._embedder().take, self._corpus_rows[index]), _as_is
        return DataLoader(
            dataset,
            batch_size=self.batch_size if shuffle else 4 * self.batch_size,
            sampler=EpochShuffle(len(index), self.seed) if shuffle else None,
            drop_last=shuffle and len(index) >= self.batch_size,
            collate_fn=collate,
        )

    def _tokenize(self, sentences: list[str]) -> Features:
        tokenize = getattr(self.encoder, "tokenize", None)
        if tokenize is None:
            raise UserError("data.store: 'none' needs an encoder that tokenizes; allowed with this one: disk, memory")
        features: Features = tokenize(sentences)
        return features


def _check_store_dir(path: str | None) -> None:
    if path is not None and Path(path).is_file():
        raise UserError(f"data.store_dir: {path} is a file; allowed: a folder, new or not")
