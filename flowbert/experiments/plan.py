"""What is computed: one candidate on one task, fitted on one corpus with one seed."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.encoders import Encoder, digests_reused
from flowbert.errors import UserError
from flowbert.experiments.candidates import Candidate
from flowbert.io import digest
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

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Identity of the encoder when the experiment was planned."""
        return self.encoder.identity

    @cached_property
    def fit_key(self) -> str:
        """Digest of what determines the fitted map."""
        corpus = None if self.corpus is None else self.corpus.digest
        return digest(
            self.identity, self.candidate.key, corpus, self._labels, self.seed
        )

    @cached_property
    def key(self) -> str:
        """Digest of all settings that determine the scores."""
        return digest(self.fit_key, self.task.digest)

    @cached_property
    def _labels(self) -> str | None:
        """Digest of the labelled pairs."""
        pairs = [
            (subset.sentences1, subset.sentences2, subset.scores.tolist())
            for subset in self.labels
        ]
        return digest(pairs) if pairs else None

    @property
    def lasting(self) -> bool:
        """Whether its settings identify it, also among those of other processes."""
        own = type(self.task).__module__.startswith("flowbert.")
        return own and self.candidate.lasting and getattr(self.encoder, "lasting", True)

    def settings(self) -> dict[str, Any]:
        """All settings in words."""
        corpus = self.corpus
        return {
            "encoder": {**self.encoder.describe(), "identity": self.identity},
            "method": self.candidate.settings(),
            "corpus": None if corpus is None else _corpus_settings(corpus),
            "labels": {"pairs": sum(map(len, self.labels)), "digest": self._labels},
            "seed": self.seed,
            "task": self.task.settings(),
        }

    def columns(self) -> dict[str, Any]:
        """Columns of the experiment's rows."""
        return {
            **self.encoder.columns(),
            "method": self.candidate.name,
            "corpus": self.candidate.corpus
            if self.corpus is None
            else self.corpus.name,
            "seed": self.seed if self.candidate.seed is None else self.candidate.seed,
            "task": self.task.name,
            "split": self.task.split,
            "pairs": self.task.count,
            "supervised": self.candidate.supervised,
        }


def _corpus_settings(corpus: Corpus) -> dict[str, Any]:
    """A corpus in words."""
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
        if candidate.advised:
            raise UserError(
                f"received {candidate.name}, which compare alone follows; expected the method "
                "that advise recommends",
                argument="methods",
            )
        own = candidate.encoder or encoder
        if candidate.needs_fit:
            candidate.map.check(own.dim)
        elif candidate.size not in (None, own.dim):
            raise UserError(
                (
                    f"{candidate.name}: was fitted on vectors of size {candidate.size}; "
                    f"expected one of size {own.dim}, that of {own.path}"
                ),
                argument="methods",
            )
    experiments = []
    for encoder, task, candidate in itertools.product(encoders, corpora, candidates):
        own = candidate.encoder or encoder
        if not candidate.needs_fit:
            experiments.append(Experiment(own, candidate, task))
            continue
        pairs = labels[task] if candidate.supervised else ()
        for corpus, seed in itertools.product(corpora[task], seeds):
            drawn = (samples or {}).get((corpus.digest, seed), corpus)
            random = candidate.seeded or drawn is not corpus
            used = seed if random else None
            experiments.append(Experiment(own, candidate, task, drawn, used, pairs))
    return _distinct(experiments)


def _distinct(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without repetitions; two that differ have different names in the table."""
    known: dict[tuple[Any, ...], Experiment] = {}
    for experiment in experiments:
        columns = experiment.columns()
        measured = (experiment.task.kind, experiment.task.metrics)
        first = known.setdefault((*columns.values(), *measured), experiment)
        if first.key != experiment.key:
            names = ", ".join(f"{name} {value}" for name, value in columns.items())
            raise UserError(
                f"compare: received two different experiments called {names}; expected encoders, "
                "methods and corpora with different names"
            )
    return list(known.values())
