"""Methods of a comparison, and experiments: a method with a task, a corpus and a seed."""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from flowbert import __version__
from flowbert.data.corpus import Corpus
from flowbert.data.scored_pairs import Subset
from flowbert.data.text_files import as_list
from flowbert.encoders import (
    Embedder,
    EncoderOptions,
    SentenceEncoder,
    digests_reused,
    is_sentence_transformer,
    open_encoder,
)
from flowbert.encoders.reading import resolve
from flowbert.errors import UserError
from flowbert.io import as_json, digest
from flowbert.maps import (
    MAPS,
    Map,
    Raw,
    as_map,
    digest_state,
    is_map,
    make_map,
)
from flowbert.model import Model, model_folder
from flowbert.precision import precision_settings
from flowbert.tasks import Task

VERSIONS = {"flowbert": __version__, "torch": torch.__version__}
"""Versions that scores depend on."""

ADVISED = "advised"
"""Name of the method that uses the recommended setting."""

RECIPE_METHOD = "whitening:shrinkage=0.3"
"""Map of the recommended recipe."""


@dataclass(frozen=True, eq=False)
class Method:
    """A map or model that is compared.

    Attributes:
        name: Name in tables; ``raw`` is every encoder without a map.
        map: The map.
        corpus: Name of the corpus of a fitted map; ``none`` for raw.
        seed: Seed of a fitted map.
        encoder: Encoder of a model, in place of those of the comparison.
        advised: Whether map, layers and pooling follow the advice for each encoder; with an
            encoder, they are chosen already.
    """

    name: str
    map: Map
    corpus: str = "none"
    seed: int | None = None
    encoder: Embedder | None = None
    advised: bool = False

    @property
    def is_raw(self) -> bool:
        """Whether it is every encoder without a map."""
        return type(self.map) is Raw and self.encoder is None

    @property
    def needs_fit(self) -> bool:
        """Whether the map is fitted on the corpus."""
        return not (self.map.is_fitted or type(self.map) is Raw)

    @cached_property
    def digests(self) -> list[str]:
        """Digests of the fitted values of each step of the map, whose text has the parameters.

        A step with custom code gets a random one, so that its records are not reused.
        """
        digests = []
        for step in self.map.parts:
            if step.name not in MAPS or is_custom(step):
                digests.append(secrets.token_hex(16))
            elif self.map.is_fitted:
                digests.append(digest_state(step.get_state()))
        return digests

    def check_size(self, encoder: Embedder) -> None:
        """Check that the vectors of an encoder can be mapped; a model uses its encoder.

        Raises:
            UserError: If parameters or fitted values have another size, or the method still needs
                an advice.
        """
        if self.advised and self.encoder is None:
            raise UserError(
                f"received {self.name}, which only compare accepts; expected the method that "
                "advise recommends",
                argument="methods",
            )
        encoder = self.encoder or encoder
        size = getattr(self.map.parts[0], "n_features_in_", None)
        if self.needs_fit:
            self.map.check(encoder.dim)
        elif size not in (None, encoder.dim):
            raise UserError(
                f"{self.name}: was fitted on vectors of size {size}; expected one of size "
                f"{encoder.dim}, that of {encoder.path}",
                argument="methods",
            )


def is_custom(value: object) -> bool:
    """Whether an object's class is defined outside of flowbert."""
    return not type(value).__module__.startswith("flowbert.")


def parse_methods(methods: Any) -> list[Method]:
    """Methods from names, estimators, models and folders of models.

    Args:
        methods: A comma-separated text, a list, or a dict from names in tables.

    Raises:
        UserError: If a name is unknown or given twice.
    """
    if isinstance(methods, str):
        methods = as_list(methods, "methods")
    if isinstance(methods, Mapping):
        return [replace(_parse(methods[name]), name=name) for name in methods]
    parsed = [_parse(value) for value in methods]
    names = [method.name for method in parsed]
    if len(set(names)) < len(names):
        raise UserError(
            f"received {', '.join(names)}; expected each name once; a dict names them, as "
            'methods={"a": model, "b": model}',
            argument="methods",
        )
    return parsed


def _parse(value: Any) -> Method:
    if value == ADVISED:
        return Method(value, make_map(RECIPE_METHOD), advised=True)
    if isinstance(value, str) and not is_map(value) and model_folder(value):
        model = Model.load(value)
        return replace(_parse(model), name=f"{model.map_name} of {value}")
    if isinstance(value, Model):
        fitted = value.map or Raw()
        return Method(value.map_name, fitted, "given", encoder=value.encoder)
    if is_sentence_transformer(value):
        encoder = open_encoder(value)
        name = encoder.columns()["encoder"]
        return Method(name, Raw(), "given", encoder=encoder)
    map = make_map(value) if isinstance(value, str) else as_map(value)
    name = value if isinstance(value, str) else map.text
    return Method(name, map, "given" if map.is_fitted else "none")


Drawn = tuple[Corpus, int | None]
"""A corpus, and the seed that drew it from a larger one, or None."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """One method on one task, fitted on one corpus with one seed.

    The role is one of these.

    ``reference``: raw, the encoder with the settings of its folder; ``method``; ``advised``;
    ``reading``: other layers and so on without a map, in addition to the reference.
    """

    encoder: Embedder
    method: Method
    task: Task
    corpus: Corpus | None = None
    seed: int | None = None
    labels: Subset | None = None
    role: str = "method"

    def sentences(self) -> Iterator[str]:
        """All sentences that the experiment embeds."""
        yield from self.task.sentences
        if self.corpus is not None:
            yield from self.corpus.sentences
        if self.labels is not None:
            yield from self.labels.sentences1
            yield from self.labels.sentences2

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns of the rows of the experiment."""
        method, corpus = self.method, self.corpus
        return {
            "template": "",
            "sink_token": "",
            **self.encoder.columns(),
            "method": method.name,
            "role": self.role,
            "corpus": method.corpus if corpus is None else corpus.name,
            "seed": self.seed if method.seed is None else method.seed,
            "supervised": method.map.supervised,
            **self.task.columns,
        }

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings and versions as JSON values, those of the task last."""
        task = self.task.settings()
        if is_custom(self.task):
            task["object"] = secrets.token_hex(16)
        pairs = None
        if (labels := self.labels) is not None:
            values = labels.sentences1, labels.sentences2, labels.scores.tolist()
            pairs = {"pairs": len(labels), "digest": digest([values])}
        settings: dict[str, Any] = {
            "encoder": self.encoder.describe() | {"identity": self.encoder.identity},
            "map": self.method.map.text,
            "fitted": self.method.digests,
            "corpus": None if self.corpus is None else self.corpus.describe(),
            "labels": pairs,
            "seed": self.seed,
            "versions": VERSIONS,
            "precision": precision_settings(),
            "options": self.options(),
            "task": task,
        }
        plain: dict[str, Any] = as_json(settings)
        return plain

    def options(self) -> dict[str, Any]:
        """Options of ``fit``, or of ``encode`` without a map, that repeat it.

        Empty if they cannot name the map or the encoder, or the map learns from labels.
        """
        method, map = self.method, self.method.map
        known = self.encoder.describe()
        is_given = method.corpus == "given" or not (
            method.encoder is None or method.advised
        )
        in_memory = not getattr(self.encoder, "is_on_disk", True)
        cannot_be_named = not is_map(map.text) or map.supervised or "views" in known
        if is_given or in_memory or cannot_be_named:
            return {}
        reading = {"path": self.encoder.path}
        usual = vars(EncoderOptions())
        if isinstance(self.encoder, SentenceEncoder):
            backbone = self.encoder.backbone
            plain = resolve(backbone, backbone.folder.reading, {})
            usual = usual | {"max_length": plain.max_length}
        for name in ("max_length", "dtype", "max_words"):
            if known.get(name) not in (None, usual[name]):
                reading[name] = known[name]
        if self.role != "reference":
            for name in ("layers", "pooling", "template", "sink_token"):
                text = self.columns[name]
                if name in known and text:
                    no_sink = name == "sink_token" and text == "none"
                    reading[name] = "" if no_sink else text
        chosen = {} if type(map) is Raw else {"method": map.text}
        return chosen | {"encoder": reading}

    @cached_property
    def key(self) -> str:
        """Digest of names in the table and of all settings, which identifies the record."""
        return digest(self.columns, self.settings)

    @cached_property
    def fit_key(self) -> str:
        """Digest of all settings but those of the task, which determine the fitted map."""
        return digest(self.settings | {"task": None})


@digests_reused()
def plan_experiments(
    encoders: Sequence[Embedder],
    methods: Sequence[Method],
    corpora: Mapping[Task, Sequence[Drawn]],
    labels: Mapping[Task, Subset],
    seeds: Sequence[int] = (0,),
) -> list[Experiment]:
    """All experiments, each once, in the order of the tables.

    If layers, pooling or template of an encoder differ from its folder, ``raw`` becomes two
    experiments: with the settings of the folder, and with the chosen ones.

    Args:
        encoders: Opened encoders.
        methods: Methods to compare.
        corpora: Corpora to fit on, by task.
        labels: Labelled pairs of the supervised methods, by task.
        seeds: Seeds of the methods that draw random numbers.

    Raises:
        UserError: If a method does not fit the size of an encoder's vectors or still needs an
            advice, or different experiments would have the same names.
    """
    for encoder, method in itertools.product(encoders, methods):
        method.check_size(encoder)
    experiments = []
    saved: dict[Any, Embedder] = {}
    for encoder, task, method in itertools.product(encoders, corpora, methods):
        role = "advised" if method.advised else "method"
        one = Experiment(method.encoder or encoder, method, task, role=role)
        if method.needs_fit:
            pairs = labels[task] if method.map.supervised else None
            random = seeds if method.map.seeded else [None]
            experiments += [
                replace(one, corpus=corpus, seed=seed, labels=pairs)
                for corpus, drawn in corpora[task]
                for seed in (random if drawn is None else [drawn])
            ]
        elif method.is_raw:
            network = getattr(encoder, "backbone", encoder)
            if network not in saved:
                saved[network] = encoder
                if isinstance(encoder, SentenceEncoder):
                    saved[network] = encoder.as_saved()
            reference = replace(one, encoder=saved[network], role="reference")
            experiments += [reference, *_other_readings(reference, encoder, methods)]
        else:
            experiments.append(one)
    return _each_once(experiments)


def _other_readings(
    reference: Experiment, encoder: Embedder, methods: Sequence[Method]
) -> Iterator[Experiment]:
    """Experiments without a map, for other layers and so on than those of the folder.

    They count as chosen methods if there is no other method.
    """
    is_alone = all(method.is_raw for method in methods)
    role = "method" if is_alone else "reading"
    raw = replace(reference.method, name="raw")  # tables name the reading
    advised = [method.encoder for method in methods if method.advised]
    for reading in (encoder, *filter(None, advised)):
        is_other = reading.columns() != reference.encoder.columns()
        if is_other and reading.path == encoder.path:
            yield replace(reference, encoder=reading, method=raw, role=role)


def _each_once(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Remove repeated experiments.

    Raises:
        UserError: If different experiments have the same names.
    """
    known: dict[Any, Experiment] = {}
    for experiment in experiments:
        # The key is that of now: an encoder may change before it is used.
        columns, task = experiment.columns, experiment.task
        place = (*columns.values(), task.kind, task.metrics)
        if known.setdefault(place, experiment).key != experiment.key:
            names = ", ".join(f"{name} {x}" for name, x in columns.items() if x)
            raise UserError(
                f"compare: received two different experiments called {names}; expected encoders, "
                "methods and corpora with different names; a dict names "
                'models, as methods={"a": model, "b": model}'
            )
    return list(known.values())
