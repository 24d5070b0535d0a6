"""``reproduce``: published rows with their setting here: ours, theirs, the difference, inside our interval or not."""

import csv
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace

from flowbert.cli.evaluate import corpora_of, corpus_loader
from flowbert.cli.options import as_list, as_numbers, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.data.sts import TASKS, load_task
from flowbert.errors import UserError, choices
from flowbert.evaluation import Cell, Request, Source, fingerprint
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.run import Table
from flowbert.evaluation.sources import EncoderOptions, load_sources
from flowbert.io.atomic import written_atomically
from flowbert.methods.registry import parse_methods
from flowbert.reproduction.compare import Comparison, Reproduction, describe, method_of, record_of, select_rows
from flowbert.reproduction.published import PublishedRow, Setting, explain, published_row, published_rows, setting_of
from flowbert.tasks import STS, Task
from flowbert.tasks.replicates import Interval, Replicates, average

_EXAMPLE = """examples:
  python train.py reproduce --list
  python train.py reproduce --explain li2020-2-bert-base-uncased-flow-target
  python train.py reproduce --table li2020 --encoder bert-base-uncased --senteval DIR --nli hub
  python train.py reproduce --table su2021 --encoder DIR --senteval DIR     (DIR in place of every published encoder)"""

_CSV = ("row", "task", "aggregation", "ours", "low", "high", "std", "published", "difference", "inside", "note")


def make_parser() -> ToolParser:
    """Parser of ``reproduce``."""
    parser = ToolParser(
        usage="train.py reproduce [options]",
        description="Run published rows with their exact setting and lay ours beside theirs. A row whose encoder "
        "cannot be had says so, and the rest runs.",
        epilog=_EXAMPLE,
    )
    names = str | list[str]
    rows = parser.add_argument_group("Which rows")
    rows.add_argument("--list", action="store_true", help="Print every row with its setting, and stop.")
    rows.add_argument("--explain", type=str | None, default=None, help="Print a row with each ambiguity, and stop.")
    rows.add_argument("--table", type=str | None, default=None, help="Source or table: li2020, li2020-2, su2021, ...")
    rows.add_argument("--rows", type=names | None, default=None, help="Ids of rows, comma-separated.")
    rows.add_argument(
        "--encoder",
        type=str | None,
        default=None,
        help="Name of a published encoder: only its rows. A folder, run folder, or file of word vectors: in place of "
        "the published encoder; the published figures are context then, unless the folder has the encoder's name.",
    )
    data = parser.add_argument_group("The data")
    data.add_argument("--tasks", type=names | None, default=None, help="Only these tasks; default: all of the row.")
    data.add_argument(
        "--senteval", type=str | None, default=None, help="Folder laid out as SentEval's data/downstream."
    )
    data.add_argument("--nli", type=str, default="hub", help="NLI source of the rows fitted on NLI: hub, or files.")
    run = parser.add_argument_group("The run")
    run.add_argument("--seeds", type=int | str | list[int], default=0, help="Seeds of the flows: 0, or 0,1,2.")
    run.add_argument("--output", type=str, default="reproduce.json", help="File to write, ending in .json.")
    run.add_argument("--bootstrap", type=int, default=1000, help="Resamples for 95% intervals; 0: none.")
    run.add_argument("--bootstrap_seed", type=int, default=0, help="Seed of the resampling.")
    run.add_argument("--store_dir", type=str | None, default=None, help="Embedding cache; default: ~/.cache/flowbert.")
    run.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda or mps.")
    return parser


def main(argv: list[str]) -> None:
    """Run ``reproduce``.

    Raises:
        UserError: For every mistake in the options, or if no row can be run.
    """
    options = make_parser().parse_args(argv[1:])
    if options.list:
        for row in published_rows():
            print(f"{row.id}\n  {describe(setting_of(row))}")
        return
    if options.explain is not None:
        print(explain(published_row(options.explain)))
        return
    output = check_output(options.output, "--output", (".json",))
    wanted = None if options.tasks is None else as_list(options.tasks, "--tasks")
    for task in wanted or ():
        if task not in TASKS:
            raise UserError(f"--tasks: received {task!r}; {choices(TASKS, task)}")
    if options.senteval is None:
        raise UserError("--senteval: received nothing; allowed: a folder laid out as SentEval's data/downstream")
    rows, substitute = _selected(options)
    runner = _Runner(options, substitute, wanted, chosen_device(options.device))
    found = runner.run(rows, output)
    for item in found:
        print(item.text())
    _write(output, found)
    if not any(item.comparisons for item in found):
        raise UserError(f"none of the {len(found)} rows could be run; the notes above say why")
    print(f"written: {output}, {output.with_suffix('.csv')}, {output.with_suffix('.md')}")


def _selected(options: Namespace) -> tuple[list[PublishedRow], str | None]:
    """The rows, and the encoder in place of the published one, if any."""
    ids = [] if options.rows is None else as_list(options.rows, "--rows")
    published = {name for row in published_rows() for name in (row.encoder, setting_of(row).encoder)}
    if options.encoder is None:
        return select_rows(options.table, None, ids), None
    if options.encoder in published and not Path(options.encoder).exists():
        rows = select_rows(options.table, None, ids)
        mine = [row for row in rows if options.encoder in (row.encoder, setting_of(row).encoder)]
        if not mine:
            raise UserError(f"--encoder: none of the rows asked for has {options.encoder}; allowed: see --list")
        return mine, None
    return select_rows(options.table, None, ids), options.encoder


class _Runner:
    """Runs rows one after another on shared stores."""

    def __init__(
        self, options: Namespace, substitute: str | None, tasks: Sequence[str] | None, device: torch.device
    ) -> None:
        self.options = options
        self.substitute = substitute
        self.tasks = tasks
        self.device = device
        self.seeds = as_numbers(options.seeds, "--seeds", int)
        self.corpus_of: Callable[[str, Task], Corpus] = corpus_loader(options.nli, None)
        self._layers: dict[tuple[str, str, int], list[str]] = {}
        self._sources = cache(self._load_sources)
        self._task = cache(self._load_task)

    def run(self, rows: Sequence[PublishedRow], output: Path) -> list[Reproduction]:
        """Compute every row that can be, then compare."""
        planned: dict[str, list[Cell]] = {}
        notes: dict[str, str] = {}

        def each(step: Callable[[PublishedRow], None]) -> None:
            for row in rows:
                if row.id not in notes:
                    try:
                        step(row)
                    except UserError as error:
                        notes[row.id] = f"cannot be run: {error}"

        each(self._note_layers)
        each(lambda row: planned.update({row.id: self._cells(row)}))
        cells = [cell for mine in planned.values() for cell in mine]
        record = fingerprint(
            self.options.as_dict(),
            corpus_hash=sentences_digest(corpora_of(cells)),
            device=self.device,
            seed=self.seeds[0],
        )
        table = Table(output, cells, record)
        each(lambda row: table.compute(planned[row.id]))
        done = [cell for cell in cells if cell.setting in table.rows_of]
        intervals = Intervals.of(
            done if self.options.bootstrap else (),
            table.scores,
            resamples=self.options.bootstrap,
            seed=self.options.bootstrap_seed,
            threads=torch.get_num_threads(),
        )
        table.save(intervals.rows(table.rows()))
        return [self._compared(row, planned.get(row.id, []), table, intervals, notes.get(row.id, "")) for row in rows]

    def _note_layers(self, row: PublishedRow) -> None:
        """Collect the layers of all rows, so that one pass of an encoder serves them all."""
        path, pooling, max_length, layers = self._place(row, setting_of(row))
        known = self._layers.setdefault((path, pooling, max_length), [])
        known += [] if layers in known else [layers]

    def _cells(self, row: PublishedRow) -> list[Cell]:
        setting = setting_of(row)
        path, pooling, max_length, layers = self._place(row, setting)
        source = self._sources(path, pooling, max_length)[layers]
        tasks = [task for task in row.figures if self.tasks is None or task in self.tasks]
        if not tasks:
            raise UserError(f"none of the tasks asked for is in this row; it has {', '.join(row.figures)}")
        request = Request(
            embeddings=[source],
            tasks=[self._task(task) for task in tasks],
            methods=parse_methods([method_of(setting) if not setting.trained else "raw"], None, self.device),
            corpora=[setting.corpus],
            corpus_of=self.corpus_of,
            labels_of=lambda _: (),
            seeds=self.seeds,
        )
        return request.cells()

    def _place(self, row: PublishedRow, setting: Setting) -> tuple[str, str, int, str]:
        """Encoder, pooling, length (0: as long as it goes) and layers of a row."""
        words = self.substitute is not None and Path(self.substitute).expanduser().is_file()
        if setting.encoder is None and not words:
            raise UserError("the row needs word vectors; allowed: --encoder FILE, a text file of them")
        if setting.encoder is not None and words:
            raise UserError(f"--encoder {self.substitute} is a file of word vectors, and the row needs an encoder")
        if setting.trained and not (self.substitute and self.options.rows):
            raise UserError(
                f"the encoder itself is trained ({row.method} on {row.corpus}), which `fit` does; then: "
                f"reproduce --rows {row.id} --encoder RUN_FOLDER"
            )
        path = self.substitute or setting.encoder or ""
        return path, setting.pooling, setting.max_length or 0, setting.layers

    def _load_sources(self, path: str, pooling: str, max_length: int) -> dict[str, Source]:
        """Sources by the name of their layers."""
        names = self._layers[path, pooling, max_length]
        options = EncoderOptions(
            paths=(path,),
            revision=None,
            layers=tuple(names),
            poolings=(pooling,),
            max_length=max_length,
            dtype="float32",
            sif=None,
            max_words=None,
        )
        load = partial(load_sources, device=self.device, store_dir=self.options.store_dir, corpus=list)
        sources = load(options)
        if len(sources) < len(names):  # two names of one setting, as in an encoder of one block
            return {name: load(replace(options, layers=(name,)))[0] for name in names}
        return dict(zip(names, sources, strict=True))

    def _load_task(self, task: str) -> STS:
        return STS(load_task(task, self.options.senteval), uniformity_limit=1000)

    def _compared(
        self, row: PublishedRow, cells: Sequence[Cell], table: Table, intervals: Intervals, note: str
    ) -> Reproduction:
        setting = setting_of(row)
        by_task: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.setting in table.rows_of:
                by_task.setdefault(cell.task.name, []).append(cell)
        comparisons = [
            self._figure(task, row.figures[task], mine, setting.aggregation, table, intervals)
            for task, mine in by_task.items()
        ]
        seeds = max(map(len, by_task.values()), default=0)
        whole = [
            (comparison, mine)
            for comparison, mine in zip(comparisons, by_task.values(), strict=True)
            if math.isfinite(comparison.ours) and len(mine) == seeds
        ]
        lacking = [found.task for found in comparisons if found.task not in {item.task for item, _ in whole}]
        if len(whole) > 1:
            parts = [mine for _, mine in whole]
            comparisons.append(_averaged([found for found, _ in whole], parts, setting.aggregation, intervals))
        other = self.substitute is not None and not _same_name(self.substitute, setting)
        if self.substitute is not None and not note:
            note = f"{self.substitute} {'in place of' if other else 'taken, by its name, for'} the published encoder"
        told = [note, f"Avg is without {', '.join(lacking)}: no figure of all seeds" if lacking and whole else ""]
        told += dict.fromkeys(r.reason for mine in by_task.values() for c in mine for r in table.rows_of[c.setting])
        note = "; ".join(text for text in told if text)
        return Reproduction(row, setting, tuple(comparisons), other, note)

    def _figure(
        self, task: str, theirs: float, cells: Sequence[Cell], aggregation: str, table: Table, intervals: Intervals
    ) -> Comparison:
        figures = [
            100 * found.spearman
            for cell in cells
            for found in table.rows_of[cell.setting]
            if found.aggregation == aggregation
        ]
        replicates = _pooled(intervals, cells, aggregation)
        return _comparison(task, figures, None if replicates is None else replicates.interval("ours"), theirs)


def _same_name(path: str, setting: Setting) -> bool:
    """Whether a folder is called like the published encoder: a local copy of it."""
    return setting.encoder is not None and not setting.trained and Path(path).name == setting.encoder.split("/")[-1]


def _averaged(
    comparisons: Sequence[Comparison], by_task: Sequence[Sequence[Cell]], aggregation: str, intervals: Intervals
) -> Comparison:
    pooled = [_pooled(intervals, cells, aggregation) for cells in by_task]
    found = [each for each in pooled if each is not None]
    interval = average(found).interval("ours") if len(found) == len(by_task) else None
    theirs = statistics.fmean(found.theirs for found in comparisons)
    return _comparison("Avg", [statistics.fmean(found.ours for found in comparisons)], interval, theirs)


def _pooled(intervals: Intervals, cells: Sequence[Cell], aggregation: str) -> Replicates | None:
    """Replicates of the mean over seeds, alone, under the name ``ours``; None without intervals."""
    replicates = intervals.of_task(cells[0].task, aggregation)
    return None if replicates is None else replicates.pooled({"ours": [cell.setting for cell in cells]})


def _comparison(task: str, figures: Sequence[float], interval: Interval | None, theirs: float) -> Comparison:
    low, high = (math.nan, math.nan) if interval is None else (100 * interval.low, 100 * interval.high)
    std = statistics.stdev(figures) if len(figures) > 1 and all(map(math.isfinite, figures)) else math.nan
    return Comparison(task, statistics.fmean(figures), low, high, theirs, std)


def _write(output: Path, found: Sequence[Reproduction]) -> None:
    """The comparison as CSV, and as text in Markdown."""
    records = [record for item in found for record in record_of(item)]
    with (
        written_atomically(output.with_suffix(".csv")) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, _CSV, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_plain(record) for record in records)
    with written_atomically(output.with_suffix(".md")) as temporary:
        temporary.write_text("\n\n".join(f"```\n{item.text()}\n```" for item in found) + "\n", encoding="utf-8")


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
        for name, value in record.items()
    }
