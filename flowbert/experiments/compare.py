"""Methods on the same embeddings and tasks: one frozen pass of each encoder feeds them all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache as cached
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, choose_device, open_encoders
from flowbert.errors import UserError, record_warnings
from flowbert.experiments.plan import Drawn, parse_methods, plan_experiments
from flowbert.experiments.results import Results
from flowbert.experiments.run import run_experiments
from flowbert.io import as_json
from flowbert.numbers import (
    Count,
    CountOrZero,
    Seed,
    Share,
    TwoOrMore,
    is_count,
)
from flowbert.options import takes_options
from flowbert.registry import import_object
from flowbert.tasks import POSITIVE_ABOVE, Task, load_tasks
from flowbert.tasks.sts import load_labels, training_labels
from flowbert.vectors import EmbeddingCache

_PLACES = ("output", "cache")  # not settings


@takes_options
def compare(
    encoder: EncoderOptions | Any = "builtin-sample",
    methods: Any = "raw,whitening",
    *,
    corpus: Any = "target",
    nli: str = "hub",
    column: str | None = None,
    max_sentences: Count | None = None,
    tasks: Any = "SAMPLE",
    senteval: str | None = None,
    split: str | Sequence[str] = "test",
    columns: str | Sequence[str] | None = None,
    score_range: Sequence[float] | None = None,
    skip_invalid: bool = False,
    positive_above: Share = POSITIVE_ABOVE,
    uniformity_limit: TwoOrMore | None = None,
    labels: str | None = None,
    drop_overlap: bool = False,
    seeds: int | Sequence[int] = 0,
    bootstrap: CountOrZero = 1000,
    bootstrap_seed: Seed = 0,
    output: str | Path | None = None,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "auto",
) -> Results:
    """Compare encoders x layers x poolings x methods x corpora x tasks x seeds.

    Args:
        encoder: An encoder, its path, options whose path, layers, pooling and template may be
            lists, a SentenceTransformer object, or in Python any object with
            ``encode(sentences)`` or a function, whose vectors are kept for this comparison alone;
            or a list of these.
        methods: Maps by name or import path (``whitening-128:shrinkage=0.1``, ``flow``,
            ``whitening-64+flow``), ``advised`` for what :func:`flowbert.advise` recommends for
            each encoder, and folders of models: ``raw,flow``; in Python also a
            list, or a dict from the names in tables, with estimators (a fitted one is used as it
            is), transformers of scikit-learn, models and SentenceTransformer objects.
        corpus: Sentences to fit maps on: ``target`` (all sentences of the task, without labels),
            ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``, such as
            ``target,nli``; in Python also what ``load_corpus`` takes, or a dict of
            several by name.
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
        max_sentences: Fit on a random subset of this many sentences, one for each seed.
        tasks: Tasks, such as ``STSB,a.csv``: STS12 to STS16, STSB, SICKR (``all`` for these seven),
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``,
            import paths; in Python also a list, with pairs in memory as
            :class:`flowbert.tasks.Pairs` or a data frame.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Splits to evaluate on: ``train``, ``dev``, ``test``, or several, as in ``dev,test``.
        columns: Columns of your pair files, for tasks and ``labels``: two sentences and the score,
            such as ``left,right,rating``.
        score_range: Lowest and highest score of your pair files, such as ``0,5``.
        skip_invalid: Leave out rows with an empty sentence or without a score of the range, with a
            warning.
        positive_above: Share of the score range above which a pair counts as positive for the
            alignment: 0.8 is a score of 4 if scores go from 0 to 5.
        uniformity_limit: Largest number of sentences for the uniformity.
        labels: Task or file whose labelled pairs supervised maps learn from; None for the train
            split of each task.
        drop_overlap: Remove labelled pairs that are also test pairs; otherwise they are an error.
        seeds: Seeds of the flows, and of the subsets of ``max_sentences``, such as ``0,1,2``.
        bootstrap: Resamples of the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
        output: ``results.json`` to write. Each finished experiment is a file in ``results.records``
            and reused with the same settings and versions of flowbert and torch.
        cache: Folder of the embedding cache; in Python also an ``EmbeddingCache``. None for
            ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.

    Returns:
        The results, with intervals and verdicts.

    Raises:
        UserError: If an argument is wrong; nothing has been encoded then.

    Example:
        >>> results = compare(methods="raw,whitening", max_sentences=1000, bootstrap=0)
        >>> results.score("whitening", "SAMPLE") > results.score("raw", "SAMPLE")
        True
    """
    options = dict(locals())
    device = choose_device(device)
    options["device"] = str(device)
    options["seeds"] = seeds = check_options(seeds, output)
    with record_warnings() as warned:
        parsed = parse_methods(methods)
        measured = load_tasks(
            tasks,
            senteval,
            split=split,
            columns=columns,
            score_range=score_range,
            skip_invalid=skip_invalid,
            positive_above=positive_above,
            uniformity_limit=uniformity_limit,
        )
        shared = _load_corpora(corpus, nli, column)
        draw = cached(lambda each: _draw(each, max_sentences, seeds))
        corpora: dict[Task, list[Drawn]] = {
            task: [
                drawn
                for name, each in shared.items()
                for drawn in draw(
                    replace(task.corpus(each), name=name)
                    if isinstance(each, str)
                    else each
                )
            ]
            for task in measured
        }
        every = [each for drawn in corpora.values() for each, _ in drawn]
        distinct = {each.digest: each.sentences for each in every}
        count_over = list(chain.from_iterable(distinct.values()))
        learned = {}
        if any(method.map.supervised and method.needs_fit for method in parsed):
            given = load_labels(labels, senteval, columns, skip_invalid)
            learned = {
                task: training_labels(task, [task], given, drop_overlap)
                for task in measured
            }
        encoders = open_encoders(encoder, count_over, device)
        if any(method.advised for method in parsed):
            follow = import_object("flowbert.extras.advice.follow_advice")
            parsed = follow(parsed, encoders)
        experiments = plan_experiments(encoders, parsed, corpora, learned, seeds)
        results = run_experiments(experiments, cache, output, device)
    results.about["warnings"] = warned
    options = {name: options[name] for name in options if name not in _PLACES}
    options["corpus"] = corpus if isinstance(corpus, str) else list(shared)
    results.about["config"] = as_json(options, _describe_argument)
    results.add_intervals(bootstrap, bootstrap_seed)
    if output is not None:
        results.save(output)
    return results


def check_options(seeds: int | Sequence[int], output: str | Path | None) -> list[int]:
    """Check what comparisons and reproductions share; the seeds as a list.

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
    """The corpora by name; a text stands for what each task has of its own."""
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


def _draw(corpus: Corpus, size: int | None, seeds: Sequence[int]) -> list[Drawn]:
    """The samples of a corpus that the seeds draw, or the whole corpus where it is not larger."""
    if size is None or len(corpus) <= size:
        return [(corpus, None)]
    return [(corpus.sample(size, seed), seed) for seed in seeds]


def _describe_argument(value: Any) -> Any:
    """A JSON value of another object: its options or its name."""
    if isinstance(value, EncoderOptions):
        return as_json(asdict(value))
    return str(getattr(value, "name", None) or type(value).__name__)
