"""``evaluate``: every method on every task, from one frozen pass of each encoder, with intervals and a verdict."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from jsonargparse import Namespace

from flowbert.cli.options import as_list, as_numbers, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.data.corpus import NAMED, Corpus, load_corpus, sentences_digest
from flowbert.data.sts import Subset, is_table, load_task
from flowbert.errors import UserError, choices
from flowbert.evaluation import Cell, Request, fingerprint
from flowbert.evaluation.run import Table
from flowbert.evaluation.sources import EncoderOptions, add_source_options, load_sources
from flowbert.methods.registry import parse_methods
from flowbert.tasks import Task, TaskOptions, load_tasks
from flowbert.tasks.lexical import UNITS

_EXAMPLE = """examples:
  python train.py evaluate --encoder.path DIR --encoder.layers first_last --methods raw,whitening,whitening-128 \\
      --corpus target --tasks STS13,STSB --senteval DIR --output results.json
  python train.py evaluate --config configs/compare.yaml --encoder.path DIR --tasks STSB,SICKR --senteval DIR

methods: raw, standardization, nulling, nulling-K, whitening, whitening-K, zca, learned-removal (from labels), flow;
  options after colons: whitening:shrinkage=0.1, whitening:exponent=-0.35, nulling-3:standardize=true,
  flow:mixing=reverse:epochs=1; compositions: whitening-128+flow.
Beside FILE.json stand FILE.md, FILE.csv and FILE.scores/ (similarities). A run that finds figures of equal settings in
FILE.json computes only the others."""


def make_parser() -> ToolParser:
    """Parser of ``evaluate``."""
    parser = ToolParser(
        usage="train.py evaluate [options]",
        description="Lay methods side by side on the same pairs, from one frozen pass of each encoder: a table with "
        "intervals, a verdict, results.json.",
        epilog=_EXAMPLE,
    )
    add_source_options(parser)
    names = str | list[str]
    group = parser.add_argument_group("What to compare")
    group.add_argument(
        "--methods",
        type=str | list[str | list[str]],
        default="raw,whitening",
        help="Comma-separated, see below; in a config a list, in which a list is a composition.",
    )
    group.add_argument(
        "--flow",
        type=str | None,
        default=None,
        help="For method flow: run folder of a finished `fit`, or 'fit' to fit the default recipe here.",
    )
    group.add_argument(
        "--corpus",
        type=names,
        default="target",
        help="What methods are fitted on: target (all sentences of the task), train_only, nli, files (a path, a glob, "
        "a comma-separated list), or hub:NAME. Several: target,nli, or a list.",
    )
    group.add_argument("--nli", type=str, default="builtin-sample", help="NLI source for --corpus nli.")
    group.add_argument("--column", type=str | None, default=None, help="Column of the sentences in table files.")
    group.add_argument(
        "--labels",
        type=str | None,
        default=None,
        help="Task whose train split supervised methods learn from, or file of pairs; default: the task's own train "
        "split. Pairs that are measured, too, are refused.",
    )
    group.add_argument(
        "--drop_overlap", action="store_true", help="Learn without the labelled pairs that are measured, too."
    )
    group.add_argument(
        "--seeds", type=int | str | list[int], default=0, help="Seeds of flows fitted here: 0, or 0,1,2."
    )
    tasks = parser.add_argument_group("On what")
    tasks.add_argument(
        "--tasks",
        type=names | None,
        default=None,
        help="Comma-separated: STS12..STS16, STSB, SICKR, SAMPLE, or files of own pairs (csv, tsv, jsonl, parquet). "
        "Default: SAMPLE, if nothing else is asked for.",
    )
    tasks.add_argument(
        "--senteval", type=str | None, default=None, help="Folder laid out as SentEval's data/downstream, or hub."
    )
    tasks.add_argument("--split", type=names, default="test", help="Split to evaluate on: test, dev, or both.")
    tasks.add_argument(
        "--columns", type=names, default="sentence1,sentence2,score", help="Columns of files of own pairs."
    )
    tasks.add_argument(
        "--score_range", type=str | list[float] | None, default=None, help="Range of the score in such files: 0,5."
    )
    tasks.add_argument(
        "--answers",
        type=names | None,
        default=None,
        help="Files for answer ranking (question, label, answer; or QNLI), or hub: AUC, MAP, MRR.",
    )
    tasks.add_argument(
        "--retrieval", type=names | None, default=None, help="Tasks, as in --tasks, for recall@k and MRR@10."
    )
    tasks.add_argument(
        "--lexical",
        type=str | None,
        default=None,
        help=f"Spearman with the edit distance on all --tasks, in {' or '.join(UNITS)}.",
    )
    tasks.add_argument(
        "--positive_above", type=float, default=4.0, help="Score above which a pair is positive: alignment, retrieval."
    )
    tasks.add_argument(
        "--uniformity_limit", type=int | None, default=None, help="Draw so many sentences for uniformity; default: all."
    )
    group = parser.add_argument_group("The run")
    group.add_argument("--output", type=str, default="results.json", help="File to write, ending in .json.")
    group.add_argument("--bootstrap", type=int, default=1000, help="Resamples for 95% intervals; 0: none.")
    group.add_argument("--bootstrap_seed", type=int, default=0, help="Seed of the resampling.")
    group.add_argument(
        "--store_dir", type=str | None, default=None, help="Embedding cache; default: ~/.cache/flowbert."
    )
    group.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda or mps.")
    return parser


def main(argv: list[str]) -> None:
    """Run ``evaluate``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    parser = make_parser()
    options = parser.parse_args(argv[1:])
    output = check_output(options.output, "--output", (".json",))
    device = chosen_device(options.device)
    _check(options)
    request = _request(options, device)
    cells = request.cells()
    seed = request.seeds[0] if any(cell.seed is not None for cell in cells) else None
    record = fingerprint(_plain(options), corpus_hash=sentences_digest(corpora_of(cells)), device=device, seed=seed)
    table = Table(output, cells, record)
    table.compute()
    table.finish(options.bootstrap, options.bootstrap_seed)


def corpora_of(cells: Sequence[Cell]) -> list[str]:
    """Digests of the corpora, each once."""
    return list(dict.fromkeys(cell.corpus.digest for cell in cells if cell.corpus is not None))


def _check(options: Namespace) -> None:
    for name, least in (("bootstrap", 0), ("bootstrap_seed", 0)):
        if options[name] < least:
            raise UserError(f"--{name}: received {options[name]}; allowed: {least} or more")
    if options.lexical is not None and options.lexical not in UNITS:
        raise UserError(f"--lexical: received {options.lexical!r}; {choices(UNITS, options.lexical)}")


def _request(options: Namespace, device: torch.device) -> Request:
    names = options.methods if isinstance(options.methods, str) else [_composed(item) for item in options.methods]
    methods = parse_methods(as_list(names, "--methods"), options.flow, device)
    if options.flow is not None and not any(method.name.startswith("flow") for method in methods):
        print("note: --flow is given but --methods does not name flow", file=sys.stderr)
    tasks = _tasks(options)
    corpora = _corpora(options.corpus)
    seeds = as_numbers(options.seeds, "--seeds", int)
    sources = load_sources(
        EncoderOptions.of(options.encoder),
        device,
        options.store_dir,
        lambda: [s for task in tasks for s in task.sentences()],
    )
    return Request(
        embeddings=sources,
        tasks=tasks,
        methods=methods,
        corpora=corpora,
        corpus_of=corpus_loader(options.nli, options.column),
        labels_of=_labels(options),
        seeds=list(dict.fromkeys(seeds)),
        drop_overlap=options.drop_overlap,
    )


def _composed(method: str | list[str]) -> str:
    return method if isinstance(method, str) else "+".join(method)


def corpus_loader(nli: str, column: str | None) -> Callable[[str, Task], Corpus]:
    """Loader of the corpus of a name for a task; each is loaded once."""

    @cache
    def shared(name: str) -> Corpus:
        return load_corpus(name, nli=nli, column=column)

    @cache
    def load(name: str, task: Task) -> Corpus:
        return task.corpus(name) if name in ("target", "train_only") else shared(name)

    return load


def _corpora(value: str | list[str]) -> list[str]:
    """Several corpora from a list, or from a text if it holds names only: paths may be parted by commas, too."""
    if isinstance(value, list):
        return as_list(value, "--corpus")
    names = as_list(value, "--corpus")
    named = all(name in (*NAMED, "builtin-sample") or name.startswith("hub:") for name in names)
    return names if named else [value]


def _tasks(options: Namespace) -> list[Task]:
    names = {
        kind: [] if options[option] is None else as_list(options[option], f"--{option}")
        for kind, option in (("sts", "tasks"), ("retrieval", "retrieval"), ("answers", "answers"))
    }
    if not any(names.values()):
        names["sts"] = ["SAMPLE"]
    if options.lexical is not None:
        names["lexical"] = names["sts"]
    return load_tasks(
        names,
        TaskOptions(
            senteval=options.senteval,
            splits=as_list(options.split, "--split"),
            columns=as_list(options.columns, "--columns"),
            score_range=_limits(options.score_range),
            positive_above=options.positive_above,
            uniformity_limit=options.uniformity_limit,
            unit=options.lexical or "words",
        ),
    )


def _limits(value: str | list[float] | None) -> tuple[float, float] | None:
    if value is None:
        return None
    limits = as_numbers(value, "--score_range", float)
    if len(limits) != 2 or not limits[0] < limits[1]:
        raise UserError(f"--score_range: received {value}; allowed: lowest,highest, e.g. 0,5")
    return limits[0], limits[1]


def _labels(options: Namespace) -> Callable[[Task], Sequence[Subset]]:
    if options.labels is None:
        return lambda task: task.labelled()
    task = load_task(options.labels, options.senteval, columns=as_list(options.columns, "--columns"))
    split = "test" if is_table(options.labels) else "train"  # a file of pairs has one split, whatever its name
    if split not in task.splits:
        raise UserError(
            f"--labels: task {task.name} has no train split; allowed: a task that has one, or a file of pairs"
        )
    return lambda _: task.splits[split]


def _plain(options: Namespace) -> dict[str, Any]:
    return {name: value for name, value in options.as_dict().items() if name != "config"}
