"""What a training is given: the arguments of ``fit``, ``validate``, ``test`` and ``predict``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flowbert.data.nli import BUILTIN
from flowbert.encoders import EncoderOptions
from flowbert.tasks import POSITIVE_ABOVE


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The arguments of :func:`flowbert.fit` and of the functions beside it.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, ``distillation``, or a map that is
            fitted in closed form, such as ``whitening:shrinkage=0.3``.
        encoder: The encoder, or its path.
        corpus: Sentences to fit on: ``target`` (the default: all sentences of the first task,
            without labels, called ``STSB sentences`` in results), ``train_only``, ``nli``,
            ``builtin-sample``, files or ``hub:NAME``; in Python also sentences in memory, see
            :func:`flowbert.data.corpus.load_corpus`.
        nli: NLI pairs: ``hub`` (the default), ``builtin-sample``, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Fit on a random subset of this many sentences or examples.
        vectors: File of vectors in place of encoder and corpus, without tasks. In Python
            an array or tensor ``(N, D)``, too.
        tasks: Tasks that are measured, a list or comma-separated: STS12 to STS16, STSB, SICKR,
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``,
            ``lexical:STSB``. None for SAMPLE on the built-in sample, else none.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        columns: Columns of your pair files: two sentences and the score.
        score_range: Lowest and highest score of your pair files.
        positive_above: Share of the score range above which pairs are positive (alignment).
        uniformity_limit: Largest number of sentences for the uniformity.
        bootstrap: Resamples of the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
        baseline: Closed-form map to compare a flow with; ``none`` for none.
        model: Hyper-parameters of the module.
        data: Options of the data module, and of the examples of methods that train the encoder.
        checkpoint: Options of :func:`flowbert.training.checkpoint_callbacks`.
        trainer: Options of Lightning's Trainer.
        log_to: Loggers in addition to metrics.csv: ``wandb``, ``wandb-offline``, ``tensorboard``.
        seed: Seed of all random numbers.
        run_dir: Run folder; None for ``runs/METHOD/TIME``. ``validate``, ``test`` and ``predict``
            of the same run write into a folder of their name inside it.
        ckpt_path: Checkpoint to resume from, or to validate, test or predict with: ``last`` or
            ``best`` of ``run_dir``, or a path.
        cache: Folder of the embedding cache; None for ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
        config: Text that becomes ``config.yaml`` in the folder of a fit.
    """

    method: str = "flow"
    encoder: EncoderOptions | str = "builtin-sample"
    corpus: str | Any | None = None
    nli: str | None = None
    column: str | None = None
    max_sentences: int | None = None
    vectors: Any = None
    tasks: str | Sequence[str] | None = None
    senteval: str | None = None
    columns: str | Sequence[str] | None = None
    score_range: Sequence[float] | None = None
    positive_above: float = POSITIVE_ABOVE
    uniformity_limit: int | None = None
    bootstrap: int = 1000
    bootstrap_seed: int = 0
    baseline: str | None = "whitening"
    model: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    trainer: Mapping[str, Any] | None = None
    log_to: str | Sequence[str] = ()
    seed: int = 0
    run_dir: str | Path | None = None
    ckpt_path: str | Path | None = None
    cache: str | None = None
    config: str | None = None

    def given(self) -> dict[str, Any]:
        """Options that are not as by default, by their full names (``trainer.max_epochs``)."""
        given = dict(_given(self))
        if given.get("baseline", self) in (None, "none"):
            given.pop("baseline", None)
        return given

    @property
    def corpus_name(self) -> str:
        """The corpus by its name; sentences in memory are ``in memory``."""
        if self.corpus is None:
            return "target"
        return self.corpus if isinstance(self.corpus, str) else "in memory"

    @property
    def fits_on_sample(self) -> bool:
        """Whether corpus and NLI pairs are the built-in sample, or those of the tasks."""
        corpus, nli = self.corpus_name, self.nli
        if corpus == "nli":
            return nli == BUILTIN
        return corpus in ("target", "train_only", BUILTIN) and nli in (None, BUILTIN)


def _given(options: Any, group: str = "") -> Iterator[tuple[str, Any]]:
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, Mapping):
            inner = value.items()
            yield from ((f"{group}{field.name}.{name}", each) for name, each in inner)
        elif isinstance(value, EncoderOptions):
            yield from _given(value, f"{field.name}.")
        elif value is not field.default and not _equal(value, field.default):
            yield f"{group}{field.name}", value


def _equal(value: Any, default: Any) -> bool:
    """Whether plain values are equal; arrays and other objects are never a default."""
    return type(value) is type(default) and bool(value == default)
