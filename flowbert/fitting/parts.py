"""The parts of a run: what it is fitted on, the encoder, the module and its data."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.data.scored_pairs import Subset
from flowbert.encoders import SentenceEncoder, open_encoder
from flowbert.encoders.encoder import NOT_LEARNED
from flowbert.errors import UserError, first_line
from flowbert.fitting.run_options import FitOptions
from flowbert.maps import LabelledPairs, Map
from flowbert.methods import METHODS, FlowModule, TextDataModule, make_examples
from flowbert.methods.examples import EXAMPLES, EXAMPLES_OF, Examples
from flowbert.tasks import Task
from flowbert.tasks.sts import embed_labels
from flowbert.training import (
    RowsDataModule,
    WhiteningBaseline,
)
from flowbert.training.checkpoints import check_fitted_on
from flowbert.vectors import EmbeddingCache, as_vectors


@dataclass
class Run:
    """The parts of a run.

    Attributes:
        options: The options.
        folder: The folder that it writes into; other processes than the first learn of it from
            Lightning.
        tasks: The tasks, loaded.
        cache: The embedding cache.
        map: The map, if one is fitted in closed form.
        baseline: The closed-form map that a flow is compared with.
        labels: Labelled pairs that a supervised map learns from.
        trainer: The Trainer.
        encoder: The encoder before the training; None for vectors.
        sentences: What is fitted on, in the order of the predictions.
        corpus: Its name.
        digest: Its digest.
        rows: Vectors of the sentences, ``(N, D)``; None where the encoder is trained.
        module: The LightningModule, if a Trainer is needed.
        data: Its data module.
    """

    options: FitOptions
    folder: Path
    tasks: Sequence[Task]
    cache: EmbeddingCache
    map: Map | None
    baseline: WhiteningBaseline | None
    labels: tuple[Subset, ...]
    trainer: Any = None
    encoder: Any = None
    sentences: Sequence[str] = ()
    corpus: str = ""
    digest: str = ""
    rows: Any = None
    module: Any = None
    data: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this process is the only one, or the first of several: the one that writes."""
        return bool(self.trainer.is_global_zero)

    @property
    def device(self) -> Any:
        """Device of the encoder."""
        return self.trainer.strategy.root_device

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the predictions, ``(N, D)``."""
        if self.rows is not None:
            return len(self.rows), int(self.rows.shape[1])
        return len(self.sentences), self.encoder.dim

    @property
    def seed_of_sample(self) -> int | None:
        """Seed of a map that draws nothing: that of the subset, where one is fitted on."""
        return None if self.options.max_sentences is None else self.options.seed

    def embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training, ``(N, D)``."""
        return self.cache.rows(self.encoder, sentences)[:]

    def pairs(self) -> LabelledPairs | None:
        """Vectors of the labelled pairs; None without any."""
        return embed_labels(self.embed, self.labels) if self.labels else None


def load_rows(run: Run, saved: Mapping[str, Any] | None) -> None:
    """Load sentences or vectors for a frozen encoder, and make the module before encoding."""
    options = run.options
    if options.vectors is None:
        corpus = _load_corpus(options, run.tasks)
        if options.max_sentences is not None:
            corpus = corpus.sample(options.max_sentences, options.seed)
        run.sentences = corpus.sentences
        run.encoder = open_encoder(options.encoder, run.sentences, run.device)
        dim = run.encoder.dim
        _set_fitted_on(run, corpus, saved)
    else:
        run.rows = as_vectors(options.vectors, options.column)
        dim = int(run.rows.shape[1])
        _set_fitted_on(run, run.rows, saved)
    if run.map is not None:
        run.map.check(dim, "method")
    else:
        given = {"dim": dim, "seed": options.seed}
        run.module = _make(FlowModule, "model", options.model, **given)
    if run.baseline is not None:
        run.baseline.map.check(dim, "baseline")
    if run.encoder is not None:
        texts = [text for task in run.tasks for text in task.sentences]
        for subset in run.labels:
            texts += [*subset.sentences1, *subset.sentences2]
        run.cache.fill([run.encoder], [*run.sentences, *texts])
        run.rows = run.cache.rows(run.encoder, run.sentences)
    if run.module is not None:
        named = {"name": run.corpus, "digest": run.digest, "seed": options.seed}
        run.data = _make(RowsDataModule, "data", options.data, rows=run.rows, **named)
        run.module.fitted_on = _fitted_on(run)


def load_examples(run: Run, saved: Mapping[str, Any] | None) -> None:
    """Make the examples, and load the encoder to train next to the one that it starts from."""
    options = run.options
    kind: Any = METHODS[options.method]
    examples, data = _make_examples(run)
    if options.max_sentences is not None:
        examples = examples.sample(options.max_sentences, options.seed)
    run.sentences = examples.columns[0]
    with warnings.catch_warnings():
        if kind.pools:  # token weights are about to be learned
            warnings.filterwarnings("ignore", f".*{NOT_LEARNED}")
        run.encoder = open_encoder(options.encoder, run.sentences, run.device)
    if not isinstance(run.encoder, SentenceEncoder):
        raise UserError(
            f"received {run.encoder.path}; expected a transformer to train",
            argument="encoder",
        )
    _set_fitted_on(run, examples, saved)
    trained = SentenceEncoder(
        **run.encoder.describe(), token_weights=run.encoder.token_weights, frozen=False
    )
    given = {"encoder": trained, "seed": options.seed}
    run.data = _make(TextDataModule, "data", data, **given, examples=examples)
    run.module = _make(kind, "model", options.model, **given)
    run.module.fitted_on = _fitted_on(run)
    run.module.check_examples(run.data.examples)


def _make_examples(run: Run) -> tuple[Examples, dict[str, Any]]:
    """The examples of a method, and the options of its data that they do not use.

    Raises:
        UserError: If an option is not one of the method's, or a source has no effect.
    """
    options = run.options
    data = dict(options.data or {})
    text_of = EXAMPLES_OF[options.method]
    chosen = {}
    for name in signature(text_of).parameters:
        of_module = (options.model or {}).get(name)
        chosen[name] = data.pop(name, of_module)
    text = _make(text_of, "data", chosen)
    argument = next(iter(chosen), "method")
    corpus: Any = options.corpus
    nli = options.nli
    function, _ = EXAMPLES.parse(text, argument)
    if "corpus" in signature(function).parameters:
        corpus, nli = _load_corpus(options, run.tasks), None
    made = make_examples(text, corpus, nli=nli, tasks=run.tasks, argument=argument)
    return made, data


def _load_corpus(options: FitOptions, tasks: Sequence[Task]) -> Corpus:
    """The corpus of the options; ``target`` and ``train_only`` are those of the first task."""
    if tasks and options.corpus_name in OWN_NAMES:
        # In a comparison, which has each task's own, `target` is another corpus.
        corpus = tasks[0].corpus(options.corpus_name)
        return replace(
            corpus, name=OWN_NAMES[options.corpus_name].format(tasks[0].name)
        )
    source = "target" if options.corpus is None else options.corpus
    return load_corpus(source, nli=options.nli or "hub", column=options.column)


def _set_fitted_on(run: Run, fitted_on: Any, saved: Mapping[str, Any] | None) -> None:
    """Keep name and digest of what is fitted on, and compare them with a checkpoint's.

    Raises:
        UserError: If the checkpoint was fitted with another encoder, or on other sentences.
    """
    run.corpus, run.digest = fitted_on.name, fitted_on.digest
    if saved is not None:
        check_fitted_on(saved, _fitted_on(run), run.options.ckpt_path)


def _fitted_on(run: Run) -> dict[str, Any]:
    """Identity of the encoder and digest of the corpus, as a checkpoint has them."""
    identity = None if run.encoder is None else run.encoder.identity
    return {"encoder": identity, "corpus": {"name": run.corpus, "digest": run.digest}}


def _make(
    function: Callable[..., Any],
    group: str,
    options: Mapping[str, Any] | None,
    **given: Any,
) -> Any:
    """Call with options of a group; those that are None are left out.

    Raises:
        UserError: If one of them is not a parameter.
    """
    known = {name: x for name, x in (options or {}).items() if x is not None}
    try:
        return function(**given, **known)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(first_line(error), argument=group) from error
