"""Candidates of a comparison, and experiments: one candidate, task, corpus and seed each."""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch

from flowbert import __version__
from flowbert.data.corpus import Corpus
from flowbert.data.scored_pairs import Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import (
    Encoder,
    EncoderOptions,
    SentenceEncoder,
    SentenceTransformerEncoder,
    digests_reused,
    is_sentence_transformer,
    open_encoder,
)
from flowbert.errors import UserError, warn
from flowbert.io import as_json, digest
from flowbert.maps import (
    Map,
    Raw,
    SklearnTransformer,
    as_map,
    digest_state,
    is_map,
    make_map,
)
from flowbert.model import Model, model_folder
from flowbert.tasks import Task

_SET_BY_FIT = ("random_state", "accelerator")

VERSIONS = {"flowbert": __version__, "torch": torch.__version__}
"""Versions that scores depend on."""

UNMAPPED = "unmapped"
"""Name of vectors without a map that are read otherwise than the encoder is by itself."""

ADVISED = "advised"
"""Name of the candidate that follows the advice."""

RECIPE_METHOD = "whitening:shrinkage=0.3"
"""Map of the recommended recipe."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A map or model that is compared.

    Attributes:
        name: Name in tables.
        map: The map.
        corpus: What a fitted map was fitted on; ``none`` for raw.
        seed: Seed of a fitted map.
        encoder: Encoder of a model, in place of those of the comparison.
        advised: Whether the advice for each encoder chooses map, layers and pooling.
    """

    name: str
    map: Map
    corpus: str = "none"
    seed: int | None = None
    encoder: Encoder | None = None
    advised: bool = False

    @property
    def fitted(self) -> bool:
        """Whether the map is used as it is."""
        return self.map.is_fitted

    @property
    def needs_fit(self) -> bool:
        """Whether it is fitted on the corpus."""
        return not (self.fitted or type(self.map) is Raw)

    @property
    def size(self) -> int | None:
        """Size of the vectors that a fitted map takes; None where it is not known."""
        first = self.map.parts[0]
        return getattr(first, "n_features_in_", None) if self.fitted else None

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """Each step in words: name, parameters, digest of fitted values.

        A step whose code is not flowbert's has a random name, so that its records are not reused.
        """
        return [_describe_step(step, self.fitted) for step in self.map.parts]


def _describe_step(step: Map, fitted: bool) -> dict[str, Any]:
    parameters = {
        name: value
        for name, value in step.used_parameters().items()
        if name not in _SET_BY_FIT
    }
    in_one_line = as_json(parameters, lambda value: " ".join(str(value).split()))
    words = {"name": step.name, "parameters": in_one_line}
    if isinstance(step, SklearnTransformer) or is_custom(step):
        return words | {"object": secrets.token_hex(16)}
    return words | {"values": digest_state(step.get_state())} if fitted else words


def is_custom(value: object) -> bool:
    """Whether an object's class is defined outside of flowbert."""
    return not type(value).__module__.startswith("flowbert.")


def parse_candidates(methods: Any) -> list[Candidate]:
    """Candidates from names, estimators, models and folders of models.

    Args:
        methods: A comma-separated text, a list, or a dict from names in tables.

    Raises:
        UserError: If a name is unknown or given twice.
    """
    if isinstance(methods, str):
        methods = as_list(methods, "methods")
    if isinstance(methods, Mapping):
        parsed = [
            replace(_candidate(value), name=name) for name, value in methods.items()
        ]
    else:
        parsed = [_candidate(value) for value in methods]
    names = [candidate.name for candidate in parsed]
    if len(set(names)) < len(names):
        raise UserError(
            f"received {', '.join(names)}; expected each name once", argument="methods"
        )
    return parsed


def _candidate(value: Any) -> Candidate:
    if isinstance(value, Candidate):
        return value
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, Model):
        return Candidate(
            value.map_name, value.map or Raw(), "given", encoder=value.encoder
        )
    if is_sentence_transformer(value):
        encoder = SentenceTransformerEncoder(value)
        name = encoder.columns()["encoder"]
        return Candidate(name, Raw(), "given", encoder=encoder)
    return _estimator(value)


def _named(text: str) -> Candidate:
    """A map by name, or the model of a folder; a method's name is not taken for a folder's."""
    if text == ADVISED:
        return Candidate(text, make_map(RECIPE_METHOD), advised=True)
    if model_folder(text) is None:
        return _estimator(make_map(text), text)
    if not is_map(text):
        loaded = Model.load(text)
        return replace(_candidate(loaded), name=f"{loaded.map_name} of {text}")
    warn(
        f"methods: {text} is taken as the method of that name; for the folder write ./{text}"
    )
    return _estimator(make_map(text), text)


def _estimator(value: Any, name: str | None = None) -> Candidate:
    estimator = as_map(value)
    corpus = "given" if estimator.is_fitted else "none"
    return Candidate(name or estimator.text, estimator, corpus)


Samples = Mapping[tuple[str, str, int], Corpus]
"""The sample of a corpus that a seed draws, by name and digest of the corpus and the seed."""


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
        """Digest of the names in the table and of all settings: that of its record."""
        return digest(self.columns, self.settings)

    @cached_property
    def fit_settings(self) -> dict[str, Any]:
        """Settings that determine the fitted map, as JSON values."""
        corpus = self.corpus
        pairs = [
            (subset.sentences1, subset.sentences2, subset.scores.tolist())
            for subset in self.labels
        ]
        words = {
            "encoder": {**self.encoder.describe(), "identity": self.encoder.identity},
            "method": self.candidate.steps,
            "corpus": None if corpus is None else corpus.describe(),
            "labels": {
                "pairs": sum(map(len, self.labels)),
                "digest": digest(pairs) if pairs else None,
            },
            "seed": self.seed,
        }
        return cast(dict[str, Any], as_json(words))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings and versions in words."""
        task = self.task.settings()
        if is_custom(self.task):
            task["object"] = secrets.token_hex(16)
        return {**self.fit_settings, "versions": VERSIONS, "task": as_json(task)}


def draw_samples(
    corpora: Sequence[Corpus], max_sentences: int | None, seeds: Sequence[int]
) -> Samples:
    """The sample of each corpus that each seed draws; the whole corpus where it is small enough."""
    if max_sentences is None:
        return {}
    distinct = {(corpus.name, corpus.digest): corpus for corpus in corpora}
    return {
        (*names, seed): corpus.sample(max_sentences, seed)
        for names, corpus in distinct.items()
        for seed in seeds
    }


def check_size(candidate: Candidate, encoder: Encoder) -> None:
    """Check that a candidate can map the vectors of an encoder, in place of which it has its own.

    Raises:
        UserError: If its parameters or fitted values are of another size, or it awaits advice.
    """
    if candidate.advised:
        raise UserError(
            f"received {candidate.name}, which only compare accepts; expected the method "
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
    *,
    as_it_comes: bool = False,
) -> list[Experiment]:
    """All experiments, in the order of the tables; none twice.

    Args:
        encoders: Opened encoders.
        candidates: What is compared.
        corpora: Corpora to fit on, by task.
        labels: Labelled pairs of the supervised candidates, by task.
        seeds: Seeds of the candidates that draw random numbers, and of the samples.
        samples: What is fitted on in place of whole corpora, see :func:`draw_samples`.
        as_it_comes: Whether ``raw`` is each network with the layers, pooling and template of its
            folder; where the encoder is read otherwise, that is a candidate :data:`UNMAPPED`.

    Raises:
        UserError: If a candidate does not fit the size of an encoder's vectors or still awaits
            advice, or two different experiments would have the same names.
    """
    for encoder, candidate in itertools.product(encoders, candidates):
        check_size(candidate, encoder)
    experiments = []
    saved: dict[Any, Encoder] = {}
    for encoder, task, candidate in itertools.product(encoders, corpora, candidates):
        own = candidate.encoder or encoder
        if not candidate.needs_fit:
            if as_it_comes and candidate.name == "raw" and candidate.encoder is None:
                network = getattr(own, "backbone", own)
                if network not in saved:
                    saved[network] = _as_saved(own)
                if own.columns() != saved[network].columns():
                    unmapped = replace(candidate, name=UNMAPPED)
                    experiments.append(Experiment(saved[network], candidate, task))
                    experiments.append(Experiment(own, unmapped, task))
                    continue
            experiments.append(Experiment(own, candidate, task))
            continue
        pairs = labels[task] if candidate.map.supervised else ()
        for corpus, seed in itertools.product(corpora[task], seeds):
            names = corpus.name, corpus.digest, seed
            drawn = (samples or {}).get(names, corpus)
            random = candidate.map.seeded or len(drawn) < len(corpus)
            used = seed if random else None
            experiments.append(Experiment(own, candidate, task, drawn, used, pairs))
    return _distinct(experiments)


def _as_saved(encoder: Encoder) -> Encoder:
    """The network of an encoder with the layers, pooling and template of its folder."""
    if not isinstance(encoder, SentenceEncoder):
        return encoder
    try:
        return encoder.as_saved()
    except UserError:  # a part of the network, such as its pooler, was not loaded
        backbone = encoder.backbone
        options = EncoderOptions(encoder.path, backbone.revision)
        return open_encoder(options, device=encoder.device)


def _distinct(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without repetitions; two that differ have different names in the table."""
    known: dict[str, Experiment] = {}
    for experiment in experiments:
        # The key is that of now: an encoder may change before it is used.
        columns, task = experiment.columns, experiment.task
        place = digest(columns, task.kind, task.metrics)
        if known.setdefault(place, experiment).key != experiment.key:
            names = ", ".join(f"{name} {value}" for name, value in columns.items())
            raise UserError(
                f"compare: received two different experiments called {names}; expected encoders, "
                "methods and corpora with different names"
            )
    return list(known.values())
