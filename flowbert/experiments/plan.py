"""Experiments: one candidate on one task, fitted on one corpus with one seed."""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.encoders import Encoder, digests_reused
from flowbert.errors import UserError
from flowbert.experiments.candidates import Candidate, is_custom
from flowbert.io import as_json, digest
from flowbert.tasks import Task

Samples = Mapping[tuple[str, int], Corpus]
"""The sample of a corpus that a seed draws, by the digest of the corpus and the seed."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """One candidate on one task, fitted on one corpus with one seed."""

    encoder: Encoder
    candidate: Candidate
    task: Task
    corpus: Corpus | None = None
    seed: int | None = None
    labels: tuple[Subset, ...] = ()

    def sentences(self) -> Iterator[str]:
        """All sentences that are embedded for it."""
        yield from self.task.sentences
        if self.corpus is not None:
            yield from self.corpus.sentences
        for subset in self.labels:
            yield from (*subset.sentences1, *subset.sentences2)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns of the experiment's rows."""
        candidate, corpus = self.candidate, self.corpus
        return {
            **self.encoder.columns(),
            "method": candidate.name,
            "corpus": candidate.corpus if corpus is None else corpus.name,
            "seed": self.seed if candidate.seed is None else candidate.seed,
            "task": self.task.name,
            "split": self.task.split,
            "pairs": self.task.count,
            "supervised": candidate.map.supervised,
        }

    @cached_property
    def key(self) -> str:
        """Digest of the names in the table."""
        return digest(self.columns, self.task.kind, self.task.metrics)

    @cached_property
    def fit_settings(self) -> dict[str, Any]:
        """What determines the fitted map, in words."""
        corpus = self.corpus
        pairs = [
            (subset.sentences1, subset.sentences2, subset.scores.tolist())
            for subset in self.labels
        ]
        words = {
            "encoder": {**self.encoder.describe(), "identity": self.encoder.identity},
            "method": self.candidate.steps,
            "corpus": None if corpus is None else _describe_corpus(corpus),
            "labels": {
                "pairs": sum(map(len, self.labels)),
                "digest": digest(pairs) if pairs else None,
            },
            "seed": self.seed,
        }
        return cast(dict[str, Any], as_json(words))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings in words: with equal ones, a finished record is reused."""
        task = self.task.settings()
        if is_custom(self.task):
            task["object"] = secrets.token_hex(16)
        return {**self.fit_settings, "task": as_json(task)}


def _describe_corpus(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "sentences": len(corpus),
        "digest": corpus.digest,
    }


def draw_samples(
    corpora: Sequence[Corpus], max_sentences: int | None, seeds: Sequence[int]
) -> Samples:
    """The sample of each corpus that each seed draws; the whole corpus where it is small enough."""
    if max_sentences is None:
        return {}
    distinct = {corpus.digest: corpus for corpus in corpora}
    return {
        (name, seed): corpus.sample(max_sentences, seed)
        for name, corpus in distinct.items()
        for seed in seeds
    }


def check_size(candidate: Candidate, encoder: Encoder) -> None:
    """Check that a candidate can map the vectors of an encoder, in place of which it has its own.

    Raises:
        UserError: If its parameters or fitted values are of another size, or it awaits advice.
    """
    if candidate.advised:
        raise UserError(
            f"received {candidate.name}, which compare alone follows; expected the method "
            "that advise recommends",
            argument="methods",
        )
    encoder = candidate.encoder or encoder
    if candidate.needs_fit:
        candidate.map.check(encoder.dim)
    elif candidate.size not in (None, encoder.dim):
        raise UserError(
            f"{candidate.name}: was fitted on vectors of size {candidate.size}; expected one of "
            f"size {encoder.dim}, that of {encoder.path}",
            argument="methods",
        )


@digests_reused()
def plan_experiments(
    encoders: Sequence[Encoder],
    candidates: Sequence[Candidate],
    corpora: Mapping[Task, Sequence[Corpus]],
    labels: Mapping[Task, tuple[Subset, ...]],
    seeds: Sequence[int],
    samples: Samples | None = None,
) -> list[Experiment]:
    """All experiments, in the order of the tables; none twice.

    Args:
        encoders: Opened encoders.
        candidates: What is compared.
        corpora: Corpora to fit on, by task.
        labels: Labelled pairs of the supervised candidates, by task.
        seeds: Seeds of the candidates that draw random numbers, and of the samples.
        samples: What is fitted on in place of whole corpora, see :func:`draw_samples`.

    Raises:
        UserError: If a candidate does not fit the size of an encoder's vectors or still awaits
            advice, or two different experiments would have the same names.
    """
    for encoder, candidate in itertools.product(encoders, candidates):
        check_size(candidate, encoder)
    experiments = []
    for encoder, task, candidate in itertools.product(encoders, corpora, candidates):
        own = candidate.encoder or encoder
        if not candidate.needs_fit:
            experiments.append(Experiment(own, candidate, task))
            continue
        pairs = labels[task] if candidate.map.supervised else ()
        for corpus, seed in itertools.product(corpora[task], seeds):
            drawn = (samples or {}).get((corpus.digest, seed), corpus)
            random = candidate.map.seeded or drawn is not corpus
            used = seed if random else None
            experiments.append(Experiment(own, candidate, task, drawn, used, pairs))
    return _distinct(experiments)


def _distinct(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without repetitions; two that differ have different names in the table."""
    known: dict[str, Experiment] = {}
    for experiment in experiments:
        # The settings are those of now: an encoder may change before it is used.
        if known.setdefault(experiment.key, experiment).settings != experiment.settings:
            columns = experiment.columns
            names = ", ".join(f"{name} {value}" for name, value in columns.items())
            raise UserError(
                f"compare: received two different experiments called {names}; expected encoders, "
                "methods and corpora with different names"
            )
    return list(known.values())
