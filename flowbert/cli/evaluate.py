"""``evaluate``: raw, closed-form calibrations and a trained flow on the same pairs, without training."""

import sys
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from flowbert.calibration import make_calibration
from flowbert.cli.options import add_encoder_options, as_list, check_output, chosen_device, setting_of
from flowbert.cli.parser import ToolParser
from flowbert.data.corpus import Corpus, load_corpus, sentences_digest
from flowbert.data.store import EmbeddingStore
from flowbert.data.sts import STSTask, load_task
from flowbert.embedder import load_transform, saved_encoder
from flowbert.encoders import SentenceEncoder, check_same_encoder
from flowbert.errors import UserError
from flowbert.evaluation import Method, compare, fingerprint, rows_of, write_results
from flowbert.report import print_table

_EXAMPLE = """example:
  python train.py evaluate --encoder.path DIR --encoder.layers first_last --methods raw,whitening,whitening-128 \\
      --corpus target --tasks STS13,STSB --senteval DIR --output results.json"""


def make_parser() -> ToolParser:
    """Parser of ``evaluate``."""
    parser = ToolParser(
        usage="train.py evaluate [options]",
        description="Lay methods side by side on the same STS pairs: one table, and results.json. Nothing is trained.",
        epilog=_EXAMPLE,
    )
    add_encoder_options(parser)
    group = parser.add_argument_group("What to compare")
    names = str | list[str]
    group.add_argument(
        "--methods",
        type=names,
        default="raw,whitening",
        help="Comma-separated: raw, whitening, whitening-K (K directions kept), whitening:shrinkage=0.1, "
        "standardization, nulling-K, zca, flow (needs --flow).",
    )
    group.add_argument("--flow", type=str | None, default=None, help="Run folder of a finished `fit`, for method flow.")
    group.add_argument(
        "--tasks", type=names, default="SAMPLE", help="Comma-separated: STS12..STS16, STSB, SICKR, SAMPLE."
    )
    group.add_argument(
        "--senteval", type=str | None, default=None, help="Folder laid out as SentEval's data/downstream, or hub."
    )
    group.add_argument("--split", type=str, default="test", help="Split to evaluate on: test or dev.")
    group.add_argument(
        "--corpus",
        type=str,
        default="target",
        help="What closed-form methods are fitted on: target (all sentences of the task), train_only, nli, files "
        "(a path, a glob, a comma-separated list), or hub:NAME.",
    )
    group.add_argument("--nli", type=str, default="builtin-sample", help="NLI source for --corpus nli.")
    group.add_argument("--column", type=str | None, default=None, help="Column of the sentences in table files.")
    run = parser.add_argument_group("The run")
    run.add_argument("--output", type=str, default="results.json", help="File to write, ending in .json.")
    run.add_argument("--store_dir", type=str | None, default=None, help="Embedding cache; default: ~/.cache/flowbert.")
    run.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda or mps.")
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
    methods = _methods(as_list(options.methods, "--methods"), options.flow)
    tasks = [load_task(name, options.senteval) for name in as_list(options.tasks, "--tasks")]
    corpora = _corpora(options, tasks)
    for task in tasks:
        task.split(options.split)

    encoder = SentenceEncoder.from_pretrained(**options.encoder).to(device)
    if "flow" in methods:
        check_same_encoder(saved_encoder(options.flow), encoder.key(), f"flow in {options.flow}")
    store = EmbeddingStore(None if options.store_dir is None else Path(options.store_dir), encoder)
    sentences = [s for task in tasks for s in (*corpora[task.name].sentences, *task.sentences([options.split]))]
    store.add(sentences, progress=True)

    setting = setting_of(encoder)
    rows = []
    for name, corpus, figures in compare(store, methods, tasks, lambda task: corpora[task.name], options.split):
        fitted_on = {"raw": "none", "flow": f"that of {options.flow}"}.get(name, corpus.name)
        rows += rows_of(figures, method=name, corpus=fitted_on, **setting)
    print_table(rows)
    digest = sentences_digest(corpus.digest for corpus in corpora.values())
    record = fingerprint(_plain(options), corpus_hash=digest, device=device)
    write_results(output, rows, record)
    print(f"written: {output}")


def _methods(names: list[str], flow: str | None) -> dict[str, Method]:
    if "flow" in names and flow is None:
        raise UserError("--flow: method flow needs the run folder of a finished `fit`; received nothing")
    if flow is not None and "flow" not in names:
        print("note: --flow is given but --methods does not name flow", file=sys.stderr)
    return {name: load_transform(str(flow), "flow") if name == "flow" else make_calibration(name) for name in names}


def _corpora(options: Namespace, tasks: list[STSTask]) -> dict[str, Corpus]:
    def load(task: str) -> Corpus:
        return load_corpus(options.corpus, task=task, senteval=options.senteval, nli=options.nli, column=options.column)

    if options.corpus in ("target", "train_only"):
        return {task.name: load(task.name) for task in tasks}
    shared = load(tasks[0].name)
    return {task.name: shared for task in tasks}


def _plain(options: Namespace) -> dict[str, Any]:
    return {name: value for name, value in options.as_dict().items() if name != "config"}
