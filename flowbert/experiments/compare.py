"""Comparison of methods on the same embeddings, from one pass of each encoder."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache as cached
from itertools import product
from pathlib import Path
from typing import Any

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.text_files import as_list
from flowbert.encoders import choose_device, open_encoders
from flowbert.errors import UserError, record_warnings
from flowbert.experiments.plan import Drawn, parse_methods, plan_experiments
from flowbert.experiments.results import Results, write_page
from flowbert.experiments.run import run_experiments
from flowbert.numbers import is_count
from flowbert.options import CompareOptions, config_of, takes
from flowbert.registry import import_object
from flowbert.tasks import Task, load_tasks
from flowbert.tasks.sts import load_labels, training_labels


@takes(CompareOptions)
def compare(options: CompareOptions) -> Results:
    """Compare encoders, layers, poolings, methods, corpora and seeds on tasks.

    In Python, ``methods`` may also be a list, or a dict from the names in tables, with estimators
    (a fitted one is used as it is), transformers of scikit-learn, models and SentenceTransformer
    objects; ``corpus`` what :func:`flowbert.data.corpus.load_corpus` takes, or a dict of several
    by name; ``tasks`` a list, with pairs in memory as :class:`flowbert.tasks.Pairs` or a data
    frame; ``cache`` an ``EmbeddingCache``.

    Args:
        options: Fields of :class:`flowbert.options.CompareOptions`, as arguments.

    Returns:
        The results, with intervals and verdicts.

    Raises:
        UserError: If an argument is wrong; nothing has been encoded then.

    Example:
        >>> results = compare(methods="raw,whitening", max_sentences=1000, bootstrap=0)
        >>> results.score("whitening", "SAMPLE") > results.score("raw", "SAMPLE")
        True
    """
    device = choose_device(options.device)
    seeds = check_options(options.seeds, options.output)
    with record_warnings() as warned:
        parsed = parse_methods(options.methods)
        measured = load_tasks(
            options.tasks,
            options.senteval,
            split=options.split,
            columns=options.columns,
            score_range=options.score_range,
            skip_invalid=options.skip_invalid,
            positive_above=options.positive_above,
            uniformity_limit=options.uniformity_limit,
        )
        shared = _load_corpora(options.corpus, options.nli, options.column)
        corpora = _draw_corpora(measured, shared, options.max_sentences, seeds)
        fitted_on = {
            each.digest: each for drawn in corpora.values() for each, _ in drawn
        }
        count_over = [text for each in fitted_on.values() for text in each.sentences]
        learned = {}
        if any(method.map.supervised and method.needs_fit for method in parsed):
            given = load_labels(
                options.labels,
                options.senteval,
                columns=as_list(options.columns, "columns") or None,
                score_range=options.score_range,
                skip_invalid=options.skip_invalid,
            )
            learned = {
                task: training_labels(task, [task], given, options.drop_overlap)
                for task in measured
            }
        encoders = open_encoders(options.encoder, count_over, device)
        if any(method.advised for method in parsed):
            follow = import_object("flowbert.extras.advice.follow_advice")
            parsed = follow(parsed, encoders)
        experiments = plan_experiments(encoders, parsed, corpora, learned, seeds)
        results = run_experiments(experiments, options.cache, options.output, device)
    results.about["warnings"] = warned
    settings = replace(options, seeds=seeds, device=str(options.device))
    settings = replace(settings, cache=None, output=None)  # they change no figure
    results.about["config"] = config_of(settings)
    results.add_intervals(options.bootstrap, options.bootstrap_seed)
    if options.output is not None:
        results.save(options.output)
        write_page(options.output)
    return results


def check_options(seeds: int | Sequence[int], output: str | Path | None) -> list[int]:
    """Check the options that comparisons and reproductions share; returns the seeds.

    Raises:
        UserError: If an argument is wrong.
    """
    if output is not None and Path(output).suffix != ".json":
        raise UserError(
            f"received {output}; expected a file ending in .json", argument="output"
        )
    numbers = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    whole = all(is_count(number, 0, math.inf) for number in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise UserError(
            argument="seeds",
            received=seeds,
            expected="one or more different whole numbers of at least 0",
        )
    return [int(number) for number in numbers]


def _load_corpora(corpus: Any, nli: str, column: str | None) -> dict[str, Corpus | str]:
    """Corpora by name; ``target`` and ``train_only``, which depend on the task, stay texts."""
    if isinstance(corpus, str):
        corpus = {name: name for name in as_list(corpus, "corpus")}
    elif not isinstance(corpus, Mapping):
        loaded = load_corpus(corpus, nli=nli, column=column)
        corpus = {loaded.name: loaded}
    return {
        name: source
        if isinstance(source, str) and source in OWN_NAMES
        else replace(load_corpus(source, nli=nli, column=column), name=name)
        for name, source in corpus.items()
    }


def _draw_corpora(
    tasks: Sequence[Task],
    corpora: Mapping[str, Corpus | str],
    size: int | None,
    seeds: Sequence[int],
) -> dict[Task, list[Drawn]]:
    """For each task, samples of the corpora drawn by each seed, or whole corpora."""

    @cached
    def draw(corpus: Corpus) -> list[Drawn]:
        if size is None or len(corpus) <= size:
            return [(corpus, None)]
        return [(corpus.sample(size, seed), seed) for seed in seeds]

    drawn: dict[Task, list[Drawn]] = {task: [] for task in tasks}
    for task, (name, corpus) in product(tasks, corpora.items()):
        if isinstance(corpus, str):
            corpus = replace(task.corpus(corpus), name=name)
        drawn[task] += draw(corpus)
    return drawn
