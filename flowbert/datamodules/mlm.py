"""The Lightning data module of masked language modelling: a corpus, tokenised once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flowbert.data.corpus import load_corpus
from flowbert.datamodules.examples import Batch, ExampleDataModule, Examples

_AT_ONCE = 1024  # sentences, padded to the longest of them while they are tokenised


class TokenTable:
    """Token features of N sentences without padding, one flat tensor per feature.

    Args:
        sentences: N sentences.
        tokenize: Sentences to token features ``(B, T)``, padded on the right, with ``attention_mask``.
        fill: What a padded position of a feature holds; 0 for those not named.

    Example:
        >>> def tokenize(sentences):
        ...     ids = [[ord(c) for c in sentence] for sentence in sentences]
        ...     rows = [torch.tensor(row) for row in ids]
        ...     padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        ...     return {"input_ids": padded, "attention_mask": (padded > 0).long()}
        >>> TokenTable(["ab", "c"], tokenize, fill={"input_ids": 7}).batch([1, 0])["input_ids"].tolist()
        [[99, 7], [97, 98]]
    """

    def __init__(
        self, sentences: Sequence[str], tokenize: Callable[[Sequence[str]], dict[str, Tensor]], fill: dict[str, int]
    ) -> None:
        blocks = []
        for start in range(0, len(sentences), _AT_ONCE):
            features = tokenize(sentences[start : start + _AT_ONCE])
            real = features["attention_mask"].bool()
            blocks.append({name: value[real].int() for name, value in features.items()} | {"": real.sum(dim=1)})
        columns = {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}
        self.lengths = columns.pop("")
        self._starts = self.lengths.cumsum(0) - self.lengths
        self._columns = columns
        self._fill = fill

    def batch(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Features of some sentences, each ``(B, T)``, padded to the longest of them."""
        index = torch.as_tensor(rows)
        lengths = self.lengths[index]
        positions = torch.arange(int(lengths.max()))
        real = positions < lengths[:, None]
        source = (self._starts[index][:, None] + positions)[real]
        features = {name: torch.full(real.shape, self._fill.get(name, 0)) for name in self._columns}
        for name, column in self._columns.items():
            features[name][real] = column[source].long()
        return features


class MLMDataModule(ExampleDataModule):
    """A corpus for masked language modelling, beside the STS tasks.

    A batch is token features, each ``(B, T)``; the module that trains masks them.  B: sentences, T: tokens.

    Args:
        corpus: Sentences as in :func:`flowbert.data.corpus.load_corpus` (``target``, ``train_only``, ``nli``,
            ``builtin-sample``, files, ``hub:NAME``).
        task: The STS task whose sentences ``target`` and ``train_only`` mean.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are: ``builtin-sample``, ``hub``, or jsonl/csv/tsv/parquet files.
        column: Column of the sentences when ``corpus`` is a table.
        max_sentences: Train on a random subset of this many sentences; default: all.
        held_out: Share of the distinct sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Sentences per step and process.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose sentences are sorted by length together, so that little padding is computed; 1: plain
            random batches.
        predict: Text file whose sentences ``predict`` embeds; default: the corpus.
        seed: Seed of the subset, the held-out split and the shuffling.

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
        held_out: float = 0.05,
        batch_size: int = 32,
        max_length: int = 128,
        pool: int = 32,
        predict: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        self._check_shared()
        self._table: TokenTable | None = None

    def read_examples(self) -> Examples:
        """The sentences of the corpus, alone."""
        h = self.hparams
        corpus = load_corpus(h["corpus"], task=h["task"], senteval=h["senteval"], nli=h["nli"], column=h["column"])
        return Examples(corpus.name, (corpus.sentences,))

    def tokens(self) -> TokenTable:
        """Token features of the whole corpus, made at the first call."""
        if self._table is None:
            encoder: Any = self._connected()[1]
            tokenizer = encoder.tokenizer
            fill = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
            self._table = TokenTable(self._loaded().sides[0], encoder.tokenize, fill)
        return self._table

    def batch(self, epoch: int, indices: Sequence[int]) -> Batch:
        """Token features of some sentences of the corpus."""
        del epoch
        return self.tokens().batch(indices)

    def _lengths(self, index: npt.NDArray[np.int64]) -> Sequence[int]:
        lengths: list[int] = self.tokens().lengths[torch.from_numpy(index)].tolist()
        return lengths
