"""The Lightning data module of the flow: a corpus of frozen embeddings to fit on, and STS tasks to evaluate on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.data.corpus import load_corpus
from flowbert.data.readers import Sentences as FileSentences
from flowbert.data.readers import read_sentences
from flowbert.data.sts import load_task
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.batches import in_order
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.store.embedding_store import EmbeddingStore, Encoder, MemoryStore

STORES = ("disk", "memory", "none")
_CHUNK = 8192  # sentences per block when a whole corpus streams by

Features = dict[str, Tensor]


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
    order = Stream(seed, "split").rng().permutation(len(distinct))
    held = {distinct[i] for i in order[: round(fraction * len(distinct))]}
    mask = np.fromiter((s in held for s in sentences), dtype=bool, count=len(sentences))
    return np.flatnonzero(~mask), np.flatnonzero(mask)


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
        self._connect_to_trainer()
        self.load()
        rank, world_size = self._processes()
        if self.trainer is not None and isinstance(self.encoder, torch.nn.Module):
            self.encoder.to(self.trainer.strategy.root_device)
        store: EmbeddingStore | MemoryStore
        if self.hparams["store"] == "disk":
            root = self.hparams["store_dir"]
            store = EmbeddingStore(None if root is None else Path(root), self._connected())
            store.add(self._to_encode(), progress=rank == 0, rank=rank, world_size=world_size)
            if self.trainer is not None:
                self.trainer.strategy.barrier("embedding store")
            store.refresh()
        else:
            store = MemoryStore(self._connected())
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

    def distinct_examples(self) -> int:
        """Number of distinct sentences that are fitted on."""
        return len(set(self._sentences(self._fit_index)))

    def start_sample(self) -> Tensor:
        """The first ``start_size`` fitting sentences of a seeded shuffle, shape ``(n, D)``; equal in all processes."""
        size = min(self.hparams["start_size"], len(self._fit_index))
        return self._take(Stream(self.seed, "start sample").rng().permutation(self._fit_index)[:size])

    def corpus_chunks(self) -> Iterator[Tensor]:
        """Raw embeddings of the fitting sentences in order, blocks of shape ``(n, D)``, bounded in memory."""
        for start in range(0, len(self._fit_index), _CHUNK):
            yield self._take(self._fit_index[start : start + _CHUNK])

    def _take(self, index: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._rows(index))

    def _rows(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        if self.hparams["store"] == "none":
            return self._connected().encode(self._sentences(index))
        return self._embedder().take(self._corpus_rows[index])

    def _sentences(self, index: npt.ArrayLike) -> list[str]:
        sentences = self.loaded_corpus().sentences
        return [sentences[i] for i in np.asarray(index).tolist()]

    def _connected(self) -> Encoder:
        if self.encoder is None:
            raise RuntimeError("the data module has no encoder")
        return self.encoder

    # --------------------------------------------------------------- loaders

    def batch(self, epoch: int, indices: Sequence[int]) -> npt.NDArray[np.float32] | Features:
        """Embeddings ``(B, D)``, or token features when the encoder runs inside the step.

        Embeddings stay an array of numpy: a Trainer in half precision would round tensors on their way to the flow.
        """
        del epoch
        if self.hparams["store"] != "none":
            return self._rows(np.asarray(indices, dtype=np.int64))
        tokenize = getattr(self.encoder, "tokenize", None)
        if tokenize is None:
            raise UserError("data.store: 'none' needs an encoder that tokenizes; allowed with this one: disk, memory")
        features: Features = tokenize(self._sentences(indices))
        return features

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Two likelihood samples: fitting sentences (at most as many as held out or 2,048) and held-out ones."""
        size = min(len(self._fit_index), max(2048, len(self._held_index)))
        fitting = np.sort(Stream(self.seed, "sample").rng().permutation(self._fit_index)[:size])
        return [in_order(self.batch, index, 4 * self.batch_size) for index in (fitting, self._held_index) if len(index)]

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """The same two samples as in validation."""
        return self.val_dataloader()

    def predict_dataloader(self) -> DataLoader[Any]:
        """Embeddings of the file ``predict``, or of the whole corpus, in order."""
        sentences = self.loaded_corpus().sentences if self.to_predict is None else self.to_predict.sentences
        store = self._embedder()
        store.add(sentences)
        rows = store.rows(sentences)
        return in_order(lambda _, chosen: store.take(chosen), rows, self.batch_size)


def _check_store_dir(path: str | None) -> None:
    if path is not None and Path(path).is_file():
        raise UserError(f"data.store_dir: {path} is a file; allowed: a folder, new or not")
