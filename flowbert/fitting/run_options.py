"""Options of a training, and the file ``config.yaml`` of its run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from flowbert.data.nli import BUILTIN
from flowbert.data.text_files import read_yaml
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError, first_line
from flowbert.io import as_json, folders_with
from flowbert.numbers import Count, CountOrZero, Seed, Share, TwoOrMore
from flowbert.options import TRAINED_METHODS
from flowbert.tasks import POSITIVE_ABOVE
from flowbert.training.run_folder import RUN_CONFIG

_OF_A_CALL = ("run_dir", "ckpt_path", "config")

# Objects that only a fit needs.
_OBJECTS = ("callbacks", "logger", "plugins", "profiler")


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Arguments of :func:`flowbert.fitting.predict`.

    Args:
        ckpt_path: Checkpoint: ``last`` or ``best`` of the run, or a path; None for the weights
            that the fit saved as its model.
        corpus: The corpus of the fit, if it has another path now; in Python also in memory.
        vectors: The vectors of the fit, if they have another path now; in Python also in memory.
        trainer: Options of Lightning's Trainer; those of training have no effect.
        run_dir: Folder to write into; None for one inside the run, named as the command.
        cache: Folder of the embedding cache; None for ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
    """

    ckpt_path: str | Path | None = None
    corpus: str | Any | None = None
    vectors: Any = None
    trainer: Mapping[str, Any] | None = None
    run_dir: str | Path | None = None
    cache: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(PredictOptions):
    """Arguments of :func:`flowbert.fitting.validate` and :func:`flowbert.fitting.test`.

    Args:
        tasks: Tasks to evaluate on, such as ``STSB,a.csv``; by default, as for the next options,
            those of the fit.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        columns: Columns of your pair files: two sentences and the score, such as
            ``left,right,rating``.
        score_range: Lowest and highest score of your pair files, such as ``0,5``.
        skip_invalid: Leave out rows with an empty sentence or without a score of the range, with a
            warning.
        positive_above: Share of the score range above which pairs are positive (alignment).
        uniformity_limit: Largest number of sentences for the uniformity.
        bootstrap: Resamples of the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
        log_to: Loggers in addition to metrics.csv: ``wandb``, ``wandb-offline``, ``tensorboard``,
            or several: ``wandb,tensorboard``.
    """

    tasks: str | Sequence[str] | None = None
    senteval: str | None = None
    columns: str | Sequence[str] | None = None
    score_range: Sequence[float] | None = None
    skip_invalid: bool | None = None
    positive_above: Share | None = None
    uniformity_limit: TwoOrMore | None = None
    bootstrap: CountOrZero | None = None
    bootstrap_seed: Seed | None = None
    log_to: str | Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class FitOptions(RunOptions):
    """The arguments of :func:`flowbert.fit`, with those of :class:`RunOptions`.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, or a map that is fitted in
            closed form, such as ``whitening:shrinkage=0.3``.
        encoder: The encoder, or its path.
        corpus: Sentences to fit on: ``target`` (the default: all sentences of the first task,
            without labels), ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``; in
            Python also sentences in memory, see :func:`flowbert.data.corpus.load_corpus`.
        nli: NLI pairs: ``hub`` (the default), ``builtin-sample``, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Fit on a random subset of this many sentences or examples.
        vectors: File of vectors in place of encoder and corpus, without tasks. In Python
            an array or tensor ``(N, D)``, too.
        tasks: Tasks to evaluate on, such as ``STSB,a.csv``: STS12 to STS16, STSB, SICKR,
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``; in
            Python also pairs in memory, as of :func:`flowbert.compare`. By default SAMPLE if the
            corpus is the built-in sample, otherwise no task.
        baseline: Closed-form map to compare a flow with, or ``none``.
        model: Hyper-parameters of the module.
        data: Options of the data module, and of the examples of methods that train the encoder.
        checkpoint: Options of :func:`flowbert.training.checkpoint_callbacks`.
        seed: Seed of all random numbers.
        seeds: One run per seed in place of one of ``seed``, in folders ``seed-0`` and so on of the
            run folder, which has their comparison; such as ``0,1,2``.
        run_dir: Run folder; None for ``runs/METHOD/TIME``.
        ckpt_path: Checkpoint to resume from: ``last`` or ``best`` of ``run_dir``, or a path.
        config: Text of ``config.yaml`` in the run folder; None for these options.
    """

    method: str = "flow"
    encoder: EncoderOptions | str = "builtin-sample"
    corpus: str | Any | None = None
    nli: str | None = None
    column: str | None = None
    max_sentences: Count | None = None
    vectors: Any = None
    tasks: str | Sequence[str] | None = None
    positive_above: Share = POSITIVE_ABOVE
    bootstrap: CountOrZero = 1000
    bootstrap_seed: Seed = 0
    baseline: str | None = "whitening"
    model: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    seed: Seed = 0
    seeds: int | Sequence[int] | None = None
    run_dir: str | Path | None = None
    ckpt_path: str | Path | None = None
    config: str | None = None

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

    def to_yaml(self) -> str:
        """Text of ``config.yaml``; of objects in memory, their types."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        encoder = EncoderOptions.of(self.encoder)
        if isinstance(encoder, EncoderOptions):
            options["encoder"] = asdict(encoder)
        kept = {name: options[name] for name in options if name not in _OF_A_CALL}
        plain = as_json(
            kept, lambda x: str(x) if isinstance(x, Path) else type(x).__name__
        )
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        return text


def read_run(run: str | Path, changes: PredictOptions) -> FitOptions:
    """The options of a run, some of them replaced.

    Args:
        run: The run folder.
        changes: Options that replace those of the run, where they are not None.

    Raises:
        UserError: If the folder has no ``config.yaml``, its content is not that of a run with
            checkpoints, or an option of the Trainer has no effect without training.
    """
    path = Path(run) / RUN_CONFIG
    runs = folders_with(run, RUN_CONFIG)
    if runs and not (path.parent / "checkpoints").is_dir():
        raise UserError(f"received {run}; expected a run: {', '.join(runs)}")
    content = dict(read_yaml(path))
    if (method := content.get("method", "flow")) not in TRAINED_METHODS:
        raise UserError(
            f"received {run} of method {method}, which is not trained; expected another run, or "
            f"compare with the methods raw,{run}",
            argument="run",
        )
    fitted_with = content.get("trainer") or {}
    trainer = {name: x for name, x in fitted_with.items() if name not in _OBJECTS}
    trainer |= changes.trainer or {}
    changed = {name: x for name, x in vars(changes).items() if x is not None}
    content |= changed
    best = Path(run) / "checkpoints" / "best.ckpt"
    content.setdefault("ckpt_path", "best" if best.is_file() else "last")
    content |= {"trainer": trainer, "log_to": changed.get("log_to", ())}
    try:
        encoder = EncoderOptions(**(content.pop("encoder", None) or {}))
        return FitOptions(encoder=encoder, **content)
    except TypeError as error:
        raise UserError(f"{path}: {first_line(error)}") from error
