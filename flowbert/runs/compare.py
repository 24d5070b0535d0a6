"""Every method on every task, from one frozen pass of each encoder, with 95% confidence intervals and a verdict."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from flowbert.data.files import as_list
from flowbert.data.sts import SAMPLE, load_task
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.token_counts import FITTED_ON
from flowbert.errors import UserError, choices
from flowbert.evaluation.comparison import Comparison
from flowbert.evaluation.embeddings import EncoderSettings, load_embeddings, vector_source
from flowbert.evaluation.grid import Request
from flowbert.evaluation.request import (
    Methods,
    Names,
    as_numbers,
    corpus_loader,
    corpus_names,
    counted_loader,
    labels_loader,
    methods_of,
    run_fingerprint,
    score_limits,
    vector_corpus_loader,
)
from flowbert.evaluation.resumable import ResumableRun
from flowbert.processes import current, leave_to_first
from flowbert.report.comparison import comparison_to_markdown
from flowbert.report.files import write_csv, write_text
from flowbert.runs.evaluation_page import page_of
from flowbert.runs.pages import pages_are_written
from flowbert.runs.vector_options import refuse_with_vectors
from flowbert.tasks import TaskOptions, load_tasks
from flowbert.tasks.lexical import UNITS
from flowbert.vectors import Vectors, VectorTable


def compare(
    encoder: str | EncoderSettings | SentenceEncoder = "builtin-sample",
    methods: Methods = "raw,whitening",
    flow: str | None = None,
    given: str | None = None,
    corpus: Names = "target",
    nli: str = "hub",
    column: str | None = None,
    max_sentences: int | None = None,
    labels: str | None = None,
    drop_overlap: bool = False,
    seeds: int | str | list[int] = 0,
    tasks: Names | None = None,
    senteval: str | None = None,
    split: Names = "test",
    columns: Names = "sentence1,sentence2,score",
    score_range: str | list[float] | None = None,
    answers: Names | None = None,
    retrieval: Names | None = None,
    probe: Names | None = None,
    lexical: str | None = None,
    positive_above: float = 4.0,
    uniformity_limit: int | None = None,
    vectors: Vectors | VectorTable | None = None,
    output: str | Path | None = None,
    bootstrap: int = 1000,
    bootstrap_seed: int = 0,
    store_dir: str | None = None,
    device: str | torch.device = "cpu",
) -> Comparison:
    """Compare each encoder x layers x pooling x method x corpus x task x seed; a list can be a comma-separated text.

    A run whose ``output`` holds figures of equal settings and code computes only the others. Beside FILE.json stand
    FILE.html (the page to look at), FILE.figures/ (its pictures and their data), FILE.md, FILE.csv and FILE.scores/
    (similarities, and vectors of 1,000 sentences for the page).

    Args:
        encoder: Which embeddings to compare on: paths, or all settings, or an encoder that is loaded.
        methods: Comma-separated, or a list, in which a list is a composition: raw, standardization, nulling-3,
            whitening-128:shrinkage=0.1, zca, learned-removal (from labels), flow:epochs=1, whitening-128+flow.
        flow: For method flow: run folder or exported folder, the name of one on the hub, or 'fit' to fit it here.
        given: For method given: run folder of fit or import, or exported folder, or the name of one on the hub, whose
            whitening it is.
        corpus: What methods are fitted on: target (all sentences of the task), train_only, nli, builtin-sample, files
            (a path, a glob, a comma-separated list), or hub:NAME. Several: target,nli, or a list.
        nli: NLI source for corpus nli: hub, builtin-sample, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Draw so many sentences of a larger corpus, by the first seed.
        labels: Task whose train split supervised methods learn from, or file of pairs; default: the task's own train
            split. Pairs that are measured, too, are refused.
        drop_overlap: Learn without the labelled pairs that are measured, too.
        seeds: Seeds of flows fitted here: 0, or 0,1,2.
        tasks: Comma-separated: STS12..STS16, STSB, SICKR, SAMPLE, or files of own pairs (csv, tsv, jsonl, parquet).
            Default: SAMPLE, if nothing else is asked for.
        senteval: Folder laid out as SentEval's data/downstream, or hub.
        split: Split to evaluate on: test, dev, or test,dev.
        columns: Columns of files of own pairs.
        score_range: Range of the score in such files: 0,5.
        answers: Files for answer ranking (question, label, answer; or QNLI), or hub: AUC, MAP, MRR.
        retrieval: Tasks, as in tasks, for recall@k and MRR@10.
        probe: SICKR, SAMPLE, or files of NLI pairs, for the accuracy of a linear classifier of entailment labels.
        lexical: Spearman with the edit distance on all tasks, in words or characters.
        positive_above: Score above which a pair is positive: alignment, retrieval.
        uniformity_limit: Draw so many sentences for uniformity; default: all.
        vectors: File of vectors (.npy, .safetensors, .parquet, .arrow, .feather), or an array ``(N, D)``, in place of
            an encoder. Files of own pairs, retrieval and answers hold row numbers from 0 then, in place of sentences;
            the corpus is ``target``, which is all rows, or another file of vectors.
        output: File to write, ending in .json; what it holds already stays. None writes nothing.
        bootstrap: Resamples for 95% confidence intervals; 0: none.
        bootstrap_seed: Seed of the resampling.
        store_dir: Embedding cache; default: ~/.cache/flowbert.
        device: Where encoders and flows run.

    Raises:
        UserError: For every mistake in the arguments or files.

    Example:
        >>> found = compare(EncoderSettings(layers="first_last"), "raw,whitening", max_sentences=2000, bootstrap=100)
        >>> [(row.method, round(100 * row.value)) for row in found.rows if row.aggregation == "wmean"]
        [('raw', 36), ('whitening', 54)]
        >>> found.verdicts[0].split(". ")[-1]
        'Use: whitening'
    """
    _check(bootstrap, bootstrap_seed, lexical)
    if output is not None and Path(output).suffix != ".json":
        raise UserError(f"output: received {output}; allowed: a name that ends in .json")
    parsed = methods_of(methods, flow, device, given)
    table = None
    if vectors is not None:
        refuse_with_vectors(encoder=encoder, nli=nli, senteval=senteval, lexical=lexical, store_dir=store_dir)
        table = VectorTable.open(vectors, column)
    names = {
        "sts": as_list(tasks, "tasks"),
        "retrieval": as_list(retrieval, "retrieval"),
        "answers": as_list(answers, "answers"),
        "probe": as_list(probe, "probe"),
    }
    if table is not None and not any(names.values()):
        raise UserError("tasks: received none; allowed with vectors: files of pairs by row number")
    names["sts"] = names["sts"] if any(names.values()) else [SAMPLE]
    names["lexical"] = [] if lexical is None else names["sts"]
    files = as_list(columns, "columns")
    options = TaskOptions(
        senteval=senteval,
        splits=as_list(split, "split"),
        columns=files,
        score_range=score_limits(score_range),
        positive_above=positive_above,
        uniformity_limit=uniformity_limit,
        unit=lexical or UNITS[0],
        vectors=None if table is None else len(table),
    )
    measured = load_tasks(names, options)
    numbers = as_numbers(seeds, "seeds", int)
    settings = EncoderSettings(encoder) if isinstance(encoder, str) else encoder
    corpora = corpus_loader(nli, column, max_sentences, numbers[0])
    if table is not None:
        corpora = vector_corpus_loader(table, column, max_sentences, numbers[0])
    cells = Request(
        embeddings=load_embeddings(settings, device, store_dir) if table is None else [vector_source(table)],
        tasks=measured,
        methods=parsed,
        corpora=corpus_names(corpus),
        corpus_of=corpora,
        counted_for=counted_loader(_counts(settings), measured, corpora, corpus_loader(nli, column)),
        labels_of=labels_loader(labels, partial(load_task, senteval=senteval, columns=files, vectors=options.vectors)),
        seeds=numbers,
        drop_overlap=drop_overlap,
    ).cells()
    with ExitStack() as stack:
        file = Path(output or Path(stack.enter_context(TemporaryDirectory())) / "results.json")
        run = ResumableRun(
            file,
            cells,
            run_fingerprint(cells, device) | {"finished": False},
            with_vectors=output is not None and pages_are_written(),
        )
        if output is not None and current().is_global_zero:
            stack.enter_context(page_of(run, has_text=table is None))
        run.compute()
        leave_to_first()
        found = Comparison.of(run, resamples=bootstrap, seed=bootstrap_seed)
        if output is not None:
            write_text(file.with_suffix(".md"), comparison_to_markdown(found))
            write_csv(file.with_suffix(".csv"), [*found.rows, *found.earlier])
    return found


def _counts(settings: EncoderSettings | SentenceEncoder) -> str:
    return (settings.counts or FITTED_ON) if isinstance(settings, EncoderSettings) else settings.count_over


def _check(bootstrap: int, bootstrap_seed: int, lexical: str | None) -> None:
    for name, number in (("bootstrap", bootstrap), ("bootstrap_seed", bootstrap_seed)):
        if number < 0:
            raise UserError(f"{name}: received {number}; allowed: 0 or more")
    if lexical is not None and lexical not in UNITS:
        raise UserError(f"lexical: received {lexical!r}; {choices(UNITS, lexical)}")
