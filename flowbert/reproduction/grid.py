"""Published rows in the grid of the evaluation: their cells, on encoders that are read once for all rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from flowbert.data.sts import load_task
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings, load_embeddings
from flowbert.evaluation.grid import Cell, Request, Source
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.request import corpus_loader, run_fingerprint
from flowbert.evaluation.resumable import ResumableRun
from flowbert.methods.registry import parse_methods
from flowbert.reproduction.published import PublishedRow
from flowbert.tasks import STS
from flowbert.tasks.replicates import Replicates


@dataclass(frozen=True)
class Figures:
    """What a row has on one task.

    Attributes:
        by_seed: Spearman x 100 of each seed.
        replicates: Their mean on every resample, under the name ``ours``; None without resampling.
        reasons: Why figures are NaN.
    """

    by_seed: tuple[float, ...]
    replicates: Replicates | None
    reasons: tuple[str, ...]


@dataclass(eq=False)
class PublishedGrid:
    """The grid of some published rows: place and plan each row, open the results file, compute, resample.

    Args:
        encoder: In place of the published encoders: a folder, a run folder, a file of word vectors; None keeps them.
        encoder_is_trained: Whether it may stand for an encoder that a row trains.
        tasks: Only these.
        senteval: Folder laid out as SentEval's ``data/downstream``.
        nli: NLI source of the rows that are fitted on NLI.
        seeds: Seeds of the flows.
        store_dir: Folder of the embedding stores; None for the default one.
        device: Where encoders and flows run.
    """

    encoder: str | None
    encoder_is_trained: bool
    tasks: Sequence[str]
    senteval: str
    nli: str
    seeds: Sequence[int]
    store_dir: str | None
    device: torch.device

    def __post_init__(self) -> None:
        self.cells: dict[str, list[Cell]] = {}
        self._layers: dict[EncoderSettings, list[str]] = {}
        self._sources = cache(self._load_sources)
        self._corpus_of = corpus_loader(self.nli)
        self._task = cache(lambda task: STS(load_task(task, self.senteval), uniformity_limit=1000))

    def place(self, row: PublishedRow) -> None:
        """Note the layers of a row, so that one pass of an encoder serves all rows that share it.

        Raises:
            UserError: If the row cannot be run with the encoder given.
        """
        known = self._layers.setdefault(self._encoder_of(row), [])
        known += [] if row.setting.layers in known else [row.setting.layers]

    def plan(self, row: PublishedRow) -> None:
        """Load what a row needs, and note its cells.

        Raises:
            UserError: If encoder, task or corpus cannot be had.
        """
        tasks = [task for task in row.figures if task in self.tasks]
        source = self._sources(self._encoder_of(row))[row.setting.layers]
        if not tasks:
            raise UserError(f"none of the tasks asked for is in this row; it has {', '.join(row.figures)}")
        method = "raw" if row.setting.trained else row.setting.full_method
        self.cells[row.id] = Request(
            embeddings=[source],
            tasks=[self._task(task) for task in tasks],
            methods=parse_methods([method], None, self.device),
            corpora=[row.setting.corpus],
            corpus_of=self._corpus_of,
            labels_of=lambda _: (),
            seeds=self.seeds,
        ).cells()

    def open(self, output: Path, *, with_vectors: bool) -> ResumableRun:
        """Open the results file, whose rows are not computed again; vectors of a sample are for its page."""
        cells = [cell for mine in self.cells.values() for cell in mine]
        record = run_fingerprint(cells, self.device) | {"finished": False}
        self.results = ResumableRun(output, cells, record, with_vectors=with_vectors)
        return self.results

    def compute(self, row: PublishedRow) -> None:
        """Compute what is missing of a row's cells.

        Raises:
            UserError: If the method cannot be fitted.
        """
        self.results.compute(self.cells[row.id])

    def resample(self, resamples: int, seed: int) -> None:
        """Compute the 95% confidence intervals; none for 0 resamples."""
        done = [cell for cell in self.results.cells if cell.setting in self.results.by_setting and resamples]
        self.intervals = Intervals.of(done, self.results.scores, resamples=resamples, seed=seed)

    def save(self, record: Mapping[str, Any]) -> None:
        """Write the figures with their intervals, and what else a page says, into the results file."""
        self.results.record |= {"finished": True, **record}
        self.results.save(self.intervals.rows(self.results.rows()))

    def figures(self, row: PublishedRow) -> dict[str, Figures]:
        """What a row has by task, after :meth:`resample`; tasks without any computed figure are left out."""
        cells = [cell for cell in self.cells.get(row.id, []) if cell.setting in self.results.by_setting]
        found = {}
        for task in dict.fromkeys(cell.task for cell in cells):
            settings = [cell.setting for cell in cells if cell.task is task]
            rows = [each for setting in settings for each in self.results.by_setting[setting]]
            replicates = self.intervals.of_task(task, row.setting.aggregation)
            found[task.name] = Figures(
                tuple(100 * each.spearman for each in rows if each.aggregation == row.setting.aggregation),
                None if replicates is None else replicates.pooled({"ours": settings}),
                tuple(dict.fromkeys(each.reason for each in rows if each.reason)),
            )
        return found

    def _encoder_of(self, row: PublishedRow) -> EncoderSettings:
        """What is loaded for a row, without its layers."""
        setting = row.setting
        words = self.encoder is not None and Path(self.encoder).expanduser().is_file()
        if setting.encoder is None and not words:
            raise UserError("the row needs word vectors; allowed as the encoder: a text file of them")
        if setting.encoder is not None and words:
            raise UserError(f"{self.encoder} is a file of word vectors, and the row needs an encoder")
        if setting.trained and not (self.encoder and self.encoder_is_trained):
            raise UserError(
                f"the encoder itself is trained ({row.method} on {row.corpus}), which a fit does; allowed: the row "
                "asked for by its id, with the run folder as the encoder"
            )
        path = self.encoder or setting.encoder or ""
        pooling = "mean" if words else setting.pooling
        return EncoderSettings(path, pooling=pooling, max_length=setting.max_length or 0, modules="dense", prompt="")

    def _load_sources(self, encoder: EncoderSettings) -> dict[str, Source]:
        """Sources by the name of their layers."""
        names = self._layers[encoder]
        sources = self._load(encoder, names)
        if len(sources) < len(names):  # two names of one setting, as in an encoder of one block
            return {name: self._load(encoder, [name])[0] for name in names}
        return dict(zip(names, sources, strict=True))

    def _load(self, encoder: EncoderSettings, layers: Sequence[str]) -> list[Source]:
        return load_embeddings(replace(encoder, layers=list(layers)), self.device, self.store_dir)
