"""Options of all commands and methods, as dataclasses: without torch, so that help is fast.

The docstring of a class is the help of its options, and the annotations have their limits, which
are checked when an object is made. A field that is a dataclass is a group of options, such as
``encoder.layers``.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from docstring_parser.google import parse as parse_docstring

from flowbert.errors import check_choice, nearest
from flowbert.numbers import (
    Count,
    CountOrZero,
    HalfAtMost,
    NotNegative,
    Positive,
    Seed,
    Share,
    ShareAbove0,
    TwoOrMore,
    check_limits,
)

P = ParamSpec("P")
R = TypeVar("R")

_SAMPLE = "builtin-sample"

IN_MEMORY = "memory"
"""Name of sentences in memory."""

GROUPS = ("model", "data", "checkpoint")
"""Groups of options of the methods that a Trainer trains."""

_OF_A_CALL = ("run_dir", "ckpt_path")  # not settings

POSITIVE_ABOVE = 0.8
"""Share of the score range above which a pair is a positive of the alignment: 4 of 0 to 5."""


def takes(
    options: Callable[P, Any],
) -> Callable[[Callable[[Any], R]], Callable[P, R]]:
    """Let a function of options take their fields as its arguments.

    Args:
        options: The dataclass of the options, whose fields are the signature; its docstring and
            those of its bases take the place of the argument ``options`` in that of the function.

    Example:
        >>> @takes(EncoderOptions)
        ... def name(options: EncoderOptions) -> str:
        ...     return str(options.path)
        >>> name("bert-base-uncased")
        'bert-base-uncased'
    """

    def decorate(function: Callable[[Any], R]) -> Callable[P, R]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(options).replace(return_annotation=returned)

        @wraps(function)
        def call(*args: P.args, **arguments: P.kwargs) -> R:
            try:
                signature.bind(*args, **arguments)
            except TypeError as error:
                known = signature.parameters
                hints = (nearest(known, x) for x in arguments if x not in known)
                message = f"{function.__name__}() {error}{next(hints, '')}"
                raise TypeError(message) from None
            return function(options(*args, **arguments))

        call.__signature__ = signature  # type: ignore[attr-defined]
        before, _, after = str(inspect.getdoc(function)).partition("    options: ")
        entries = [
            f"    {name}: {text}".replace("\n", "\n        ")
            for name, text in field_documents(options).items()
        ]
        call.__doc__ = before + "\n".join([*entries, *after.split("\n")[1:]])
        return call

    return decorate


def field_documents(options: Any) -> dict[str, str]:
    """Descriptions of the fields of a dataclass and of its bases, from their docstrings."""
    documents: dict[str, str] = {}
    for base in options.__mro__:
        for field in parse_docstring(vars(base).get("__doc__") or "").params:
            documents.setdefault(field.arg_name, field.description or "")
    return documents


def values_of(options: Any, kind: Any) -> dict[str, Any]:
    """The fields of a dataclass with their values in an object of a derived one."""
    return {field.name: getattr(options, field.name) for field in fields(kind)}


def config_of(options: Any) -> dict[str, Any]:
    """Options as JSON values, from which ``--config`` makes equal options.

    Sentences in memory are ``memory``, other objects their names or types. The folder and the
    checkpoint of a run are those of one call, and left out.
    """
    from flowbert.io import as_json  # slow to import

    groups = GROUPS if isinstance(options, FitOptions) else ()
    config = {
        name: value
        for name, value in vars(options).items()
        if name not in _OF_A_CALL and not (name in groups and value is None)
    }
    corpus = config.get("corpus")
    if isinstance(corpus, Mapping):
        config["corpus"] = list(corpus)
    elif not isinstance(corpus, str | Path | None):
        config["corpus"] = IN_MEMORY
    values: dict[str, Any] = as_json(config, _describe)
    return values


def config_text(options: Any) -> str:
    """The configuration of options as YAML."""
    import yaml

    config = config_of(options)
    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    return text


def _describe(value: Any) -> Any:
    """Options of a group by name; path, name or type of another object."""
    if isinstance(value, Options | GlowOptions):
        return config_of(value)
    if isinstance(value, Path):
        return str(value)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else type(value).__name__


@dataclass(frozen=True)
class Options:
    """Base of the options, which checks their limits."""

    def __post_init__(self) -> None:
        """Check the limits of the fields.

        Raises:
            UserError: If a value is outside of them.
        """
        check_limits(type(self), vars(self))


# Groups of options


@dataclass(frozen=True)
class EncoderOptions(Options):
    """Encoders to open.

    Args:
        path: Folder, hub name (``owner/name@revision`` too), run folder of a trained encoder,
            ``builtin-sample``, a .gguf file, or text file of word vectors; ``compare`` accepts
            several: ``a,b``.
        revision: Commit, branch or tag on the hub; by default ``main``.
        layers: ``last``, ``last2``, ``first_last``, ``embedding_last``, or indices of the hidden
            states to average, such as ``1,12``; by default those of the folder, else ``last``.
            ``compare`` also accepts ``singles``, ``pairs`` and ``triples``, all sets
            of that size, and several: ``last,first_last`` or ``[[1,12],last]``.
        pooling: Pooling over tokens, such as ``mean`` or ``zipf:cls=16``; by default
            that of the folder or the template, else ``mean``. ``compare`` accepts several:
            ``mean,cls``.
        max_length: Number of tokens after which a sentence is cut; 0 for the positions of the
            network. By default that of the folder, else 512 for decoders, 128 for others.
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``float64``; ``8bit`` or ``4bit`` with the
            package bitsandbytes.
        device_map: ``auto`` spreads a network that does not fit one device over all GPUs, and over
            memory and disk, with the package accelerate; not in trainings.
        template: Text around every sentence, with ``{}`` in its place, or ``prompteol``,
            ``pretended-cot``, ``knowledge``, ``echo``, or for the chat template of the network
            ``chat`` (``chat:TEXT``), and ``chat-examples``, the same after four examples.
            ``compare`` also accepts several: names such as ``prompteol,echo``, or a list.
        sink_token: Token that a decoder reads before every sentence and that is not pooled. By
            default the one that its tokenizer writes, else ``<|endoftext|>``, BOS or EOS; empty
            for no token.
        views: Layers, poolings and templates whose vectors are concatenated, such as
            ``[{layers: 1}, {layers: last, pooling: cls}]``.
        max_words: Number of word vectors to read from a file; by default all.
    """

    path: str | list[str] = "builtin-sample"
    revision: str | None = None
    layers: str | int | list[Any] | None = None
    pooling: str | list[str] | None = None
    max_length: CountOrZero | None = None
    dtype: str = "float32"
    device_map: str | None = None
    template: str | list[Any] | None = None
    sink_token: str | None = None
    views: list[Any] | None = None
    max_words: Count | None = None

    @classmethod
    def of(cls, value: Any) -> Any:
        """Options of a path; other values, such as options or an encoder, are as they are."""
        return cls(value) if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class TaskOptions(Options):
    """Tasks and their scores.

    Args:
        tasks: Tasks to evaluate on, such as ``STSB,a.csv``; by default those of the fit, as for
            the next options.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        columns: Columns of your pair files: two sentences and the score, such as
            ``left,right,rating``.
        score_range: Lowest and highest score of your pair files, such as ``0,5``.
        skip_invalid: Leave out rows with an empty sentence or without a score of the range, with a
            warning.
        positive_above: Share of the score range above which a pair counts as positive for the
            alignment: 0.8 is a score of 4 if scores go from 0 to 5.
        uniformity_limit: Largest number of sentences for the uniformity; of more, a random sample
            is taken. By default all.
        bootstrap: Number of resamples for the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
    """

    tasks: str | Sequence[str] | Any | None = None
    senteval: str | None = None
    columns: str | Sequence[str] | None = None
    score_range: Sequence[float] | None = None
    skip_invalid: bool | None = None
    positive_above: Share | None = None
    uniformity_limit: TwoOrMore | None = None
    bootstrap: CountOrZero | None = None
    bootstrap_seed: Seed | None = None


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """Where sentences come from.

    Args:
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
    """

    nli: str = "hub"
    column: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlaceOptions(Options):
    """Device and embedding cache.

    Args:
        cache: Folder of the embedding cache; by default ``FLOWBERT_CACHE``, or
            ``~/.cache/flowbert``.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.
    """

    cache: str | Any | None = None
    device: str | Any = "auto"


# Methods that a Trainer trains


@dataclass(eq=False, repr=False)
class GlowOptions:
    """Sizes and layers of a Glow.

    Args:
        levels: Number of levels; half of the dimensions are split off after every level except
            the last.
        depth: Steps of actnorm, mixing and coupling in each level.
        width: Width of the hidden layers of the couplings.
        mixing: ``lu`` (invertible 1x1 convolution), ``reverse`` or ``random``.
        coupling: ``additive``, ``affine``, or the import path of another with its options, as in
            ``mypackage.couplings.Spline:bins=8``.
        mixing_init: Initial matrix of ``lu``: ``identity``, ``reverse``, ``random``, ``rotation``.
        init: ``actnorm``: the actnorms are initialized with a sample, as in the papers;
            ``whitening``: a layer in front of them with mean and covariance of all vectors.
        prior: Density of the latents: ``normal``, or the import path of another with its options,
            as in ``mypackage.priors.StudentT:degrees=5``.
    """

    levels: Count = 2
    depth: Count = 3
    width: Count = 32
    mixing: str = "lu"
    coupling: str = "additive"
    mixing_init: str = "identity"
    init: str = "actnorm"
    prior: str = "normal"

    def glow(self) -> dict[str, Any]:
        """Arguments of a :class:`flowbert.flows.Glow`, without its vector size and seed."""
        return values_of(self, GlowOptions)


SCHEDULES = ("constant", "linear", "cosine")
"""Schedules of the learning rate."""


@dataclass(eq=False, repr=False)
class FlowOptions(GlowOptions):
    """A flow and its training.

    Args:
        noise: Variance of the noise on the vectors, as a share of their mean variance; by
            default 0.05, and 0.0001 with ``init=whitening``.
        learning_rate: Peak learning rate of ``BertAdam``.
        weight_decay: Decoupled weight decay.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: First share of the optimizer steps, in which the learning rate rises.
    """

    noise: NotNegative | None = None
    learning_rate: Positive = 5e-4
    weight_decay: NotNegative = 0.01
    schedule: str = "cosine"
    warmup: Share = 0.0

    @property
    def usual_noise(self) -> float:
        """The noise where none is given; more than after whitening would cost density."""
        return 1e-4 if self.init == "whitening" else 0.05

    def training(self) -> dict[str, Any]:
        """These options by name, the arguments of :class:`flowbert.methods.FlowModule`."""
        options = values_of(self, FlowOptions)
        if self.noise is None:
            options["noise"] = self.usual_noise
        return options


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """The training of an encoder.

    Args:
        dropout: Rate of all dropout layers of the encoder; by default those of its configuration.
        frozen_layers: Number of lower blocks to freeze. If it is above 0, only the blocks above
            them are trained.
        learning_rate: Peak learning rate of AdamW.
        weight_decay: Decoupled weight decay; biases and layer norms have none.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: First share of the optimizer steps, in which the learning rate rises.
    """

    dropout: Share | None = None
    frozen_layers: CountOrZero = 0
    learning_rate: Positive = 2e-5
    weight_decay: NotNegative = 0.01
    schedule: str = "linear"
    warmup: Share = 0.1

    def training(self) -> dict[str, Any]:
        """These options by name, the arguments of ``EncoderModule``."""
        return values_of(self, TrainingOptions)


@dataclass(frozen=True, kw_only=True)
class SimCSEOptions(TrainingOptions):
    """SimCSE.

    Args:
        loss: Loss on anchors, positives and hard negatives: ``infonce`` or the import path of
            another, with options as in ``mypackage.losses.MyLoss:margin=0.2``; those of
            ``infonce`` are the arguments of ``flowbert.methods.losses.InfoNCE``.
        head: Module between encoder and loss: ``mlp_train_only`` (dense layer and tanh, used in
            training only); ``mlp`` (the same, kept as the encoder's pooler; requires pooling
            ``cls`` of the last layer); an affine map, such as ``whitening:shrinkage=0.3`` (used in
            training only; fitted before the first step, on at most 16,384 distinct sentences of
            the first column, and not trained); or ``none``.
        head_refit_every: Number of optimizer steps after which a head that is a map is fitted
            again, on the same sentences; by default never.
        mlm_weight: Weight of an auxiliary masked language modelling loss (paper: 0.1).
        mask_fraction: Probability that this loss masks a token; default 0.15.
        chunk_size: Number of sentences whose activations are in memory at once (gradient caching,
            which takes a third more time); by default all.
    """

    loss: str = "infonce"
    head: str = "mlp_train_only"
    head_refit_every: Count | None = None
    mlm_weight: NotNegative = 0.0
    mask_fraction: ShareAbove0 | None = None
    chunk_size: Count | None = None
    learning_rate: Positive = 3e-5
    weight_decay: NotNegative = 0.0
    warmup: Share = 0.0


OBJECTIVES = ("softmax", "cosine", "triplet")
"""Objectives of Sentence-BERT, which are names of its examples, too."""


@dataclass(frozen=True, kw_only=True)
class SBERTOptions(TrainingOptions):
    """Sentence-BERT.

    Args:
        objective: ``softmax``, ``cosine`` or ``triplet``; each has its own kind of examples.
        margin: Margin of ``triplet``: how much farther the negative must be than the positive;
            default 1.
        chunk_size: Number of sentences whose activations are in memory at once (gradient caching,
            which takes a third more time); by default all.
    """

    objective: str = "softmax"
    margin: Positive | None = None
    chunk_size: Count | None = None

    def __post_init__(self) -> None:
        """Check the limits of the fields, and the objective."""
        super().__post_init__()
        check_choice("objective", self.objective, OBJECTIVES)


@dataclass(frozen=True, kw_only=True)
class MLMOptions(TrainingOptions):
    """Masked language modelling.

    Args:
        mask_fraction: Probability that a token is masked and predicted.
        whole_words: Mask whole words instead of single tokens.
        cosreg_weight: Weight of the mean cosine over all pairs of word embeddings, the paper's
            gamma (there 1).
        head_only: Train only the prediction layers, on the frozen network. A further run can
            start from the saved encoder.
    """

    mask_fraction: ShareAbove0 = 0.15
    whole_words: bool = False
    cosreg_weight: NotNegative = 0.0
    head_only: bool = False
    learning_rate: Positive = 1e-4
    warmup: Share = 0.06


@dataclass(frozen=True, kw_only=True)
class RowsOptions(Options):
    """Batches of vectors.

    Args:
        held_out: Share of the rows, in [0, 0.5], that are left out of the fit to measure the
            likelihood on. Rows equal to one of them are left out, too.
        batch_size: Number of rows in a batch of one process.
        init_size: Number of rows that the flow is initialized with.
        workers: Number of processes that read batches ahead; 0 for none.
    """

    held_out: HalfAtMost = 0.0
    batch_size: Count = 64
    init_size: TwoOrMore = 1024
    workers: CountOrZero = 0


@dataclass(frozen=True, kw_only=True)
class BatchOptions(Options):
    """Batches of sentences, pairs or triples.

    Args:
        held_out: Share of the distinct sentences of the first column, in [0, 0.5], for validation
            and not for training.
        batch_size: Number of examples in a batch of one process.
        max_length: Number of tokens, with special tokens, after which a training sentence is cut.
        pool: Number of batches to sort by length together.
        workers: Number of processes that prepare batches; 0 for none.
    """

    held_out: HalfAtMost = 0.0
    batch_size: Count = 64
    max_length: Count = 128
    pool: Count = 1
    workers: CountOrZero = 0

    def examples(self, model: Any) -> str:
        """The text of :func:`flowbert.methods.make_examples`, with the options of the module."""
        return "sentences"


@dataclass(frozen=True, kw_only=True)
class SimCSEDataOptions(BatchOptions):
    """Pairs for SimCSE.

    Args:
        positive: Positive of a sentence: ``dropout`` (the sentence again, under another dropout
            mask); ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it, with a share of
            the words as in ``crop:rate=0.1``); ``mlm:path=DIR`` (the share ``rate`` of the
            words replaced by a masked language model); ``next_sentence`` (of the same document of
            a file, which a blank line ends); ``entailment`` (of an NLI premise, with a
            contradiction as hard negative, or with ``hard_negatives=false`` without);
            ``hypothesis`` (each of an NLI premise, whatever its label: only the pairing is used).
    """

    positive: str = "dropout"

    def examples(self, model: Any) -> str:
        """The positive."""
        return self.positive


@dataclass(frozen=True, kw_only=True)
class SBERTDataOptions(BatchOptions):
    """Labelled pairs or triples for Sentence-BERT.

    Args:
        drop_overlap: With the objective ``cosine``: remove labelled pairs that are also test pairs;
            otherwise they are an error.
    """

    drop_overlap: bool = False

    def examples(self, model: Any) -> str:
        """The objective."""
        return f"{model.objective}{':drop_overlap=true' if self.drop_overlap else ''}"


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """When checkpoints are written.

    Args:
        every_n_steps: Number of optimizer steps after which ``last.ckpt`` is written, in addition
            to the end of every epoch.
        every_n_minutes: Number of minutes after which it is written, in addition to these.
    """

    every_n_steps: Count | None = None
    every_n_minutes: Positive | None = 10.0


class TrainedMethod(NamedTuple):
    """Parts of a method, by import path, and their options.

    Attributes:
        module: The LightningModule.
        model: Options of the module, ``model.NAME`` on the command line.
        data: Options of its data module, ``data.NAME``; :class:`BatchOptions` of a method that
            trains an encoder.
    """

    module: str
    model: type
    data: type

    @property
    def groups(self) -> dict[str, type]:
        """The groups of its options."""
        return {"model": self.model, "data": self.data, "checkpoint": CheckpointOptions}


TRAINED_METHODS = {
    "flow": TrainedMethod(
        "flowbert.maps.flow_module.FlowModule",
        FlowOptions,
        RowsOptions,
    ),
    "simcse": TrainedMethod(
        "flowbert.methods.simcse.SimCSEModule",
        SimCSEOptions,
        SimCSEDataOptions,
    ),
    "sbert": TrainedMethod(
        "flowbert.methods.sbert.SBERTModule",
        SBERTOptions,
        SBERTDataOptions,
    ),
    "mlm": TrainedMethod(
        "flowbert.methods.mlm.MLMModule",
        MLMOptions,
        BatchOptions,
    ),
}
"""Methods that a Trainer trains; every other one is a map that is fitted in closed form."""

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
    "logger": False,
}
"""Options of the Trainer where they are others than Lightning's."""


# Commands


@dataclass(frozen=True, kw_only=True)
class TrainerOptions(Options):
    """Corpus, Trainer and folders of a run.

    Args:
        ckpt_path: Checkpoint: ``last`` or ``best`` of the run, or a path; by default the
            weights that the fit saved as its model.
        corpus: The corpus of the fit, if it was in memory or has another path now.
        vectors: The vectors of the fit, if they were in memory or have another path now.
        trainer: Options of Lightning's Trainer; those of training have no effect.
        run_dir: Folder to write into; by default one in the run with the name of the command.
        cache: Folder of the embedding cache; by default ``FLOWBERT_CACHE``, or
            ``~/.cache/flowbert``.
    """

    ckpt_path: str | Path | None = None
    corpus: str | Any | None = None
    vectors: Any = None
    trainer: Mapping[str, Any] | None = None
    run_dir: str | Path | None = None
    cache: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogOptions(Options):
    """Loggers.

    Args:
        log_to: Loggers in addition to metrics.csv: ``wandb``, ``wandb-offline``, ``tensorboard``,
            or several: ``wandb,tensorboard``.
    """

    log_to: str | Sequence[str] = ()


@dataclass(frozen=True)
class FitOptions(TrainerOptions, LogOptions, TaskOptions):
    """Train a method, compare it with its baselines on the test split, save everything.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, or a map that is fitted in
            closed form, such as ``whitening:shrinkage=0.3``.
        encoder: The encoder, or its path.
        corpus: Sentences to fit on: ``target`` (the default: all sentences of the first task,
            without labels), ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``.
        nli: NLI pairs: ``hub`` (the default), ``builtin-sample``, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Fit on a random subset of this many sentences or examples.
        vectors: File of vectors in place of encoder and corpus, without tasks.
        tasks: Tasks to evaluate on, such as ``STSB,a.csv``: STS12 to STS16, STSB, SICKR,
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``. By
            default SAMPLE if the corpus is the built-in sample, otherwise no task.
        baseline: Closed-form map to compare a flow with, or ``none``.
        model: Hyper-parameters of the module.
        data: Options of the data module, and of the examples of methods that train the encoder.
        checkpoint: When checkpoints are written.
        trainer: Options of Lightning's Trainer.
        seed: Seed of all random numbers.
        seeds: Seeds of several runs, such as ``0,1,2``. The run folder has a folder for each
            (``seed-0`` and so on) and their comparison. By default one run with ``seed``.
        run_dir: Run folder; by default ``runs/METHOD/TIME``.
        ckpt_path: Checkpoint to resume from: ``last`` or ``best`` of ``run_dir``, or a path.
    """

    method: str = "flow"
    encoder: EncoderOptions | str = "builtin-sample"
    _: KW_ONLY
    corpus: str | Any | None = None
    nli: str | None = None
    column: str | None = None
    max_sentences: Count | None = None
    vectors: Any = None
    positive_above: Share = POSITIVE_ABOVE
    bootstrap: CountOrZero = 1000
    bootstrap_seed: Seed = 0
    baseline: str | None = "whitening"
    model: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    seed: Seed = 0
    seeds: int | Sequence[int] | None = None

    @property
    def trains_encoder(self) -> bool:
        """Whether the method trains an encoder, on examples."""
        method = TRAINED_METHODS.get(self.method)
        return method is not None and issubclass(method.data, BatchOptions)

    @property
    def corpus_name(self) -> str:
        """The corpus by its name; sentences in memory are ``in memory``."""
        if self.corpus is None:
            return "target"
        return self.corpus if isinstance(self.corpus, str) else "in memory"

    @property
    def fits_on_sample(self) -> bool:
        """Whether corpus and NLI pairs are the built-in sample, or those of the tasks."""
        if self.corpus_name == "nli":
            return self.nli == _SAMPLE
        is_own = self.corpus_name in ("target", "train_only", _SAMPLE)
        return is_own and self.nli in (None, _SAMPLE)


@dataclass(frozen=True)
class PredictOptions(TrainerOptions):
    """Write the vectors of the corpus of a run into predictions.npy.

    Args:
        run: The run folder of a fit.
    """

    run: str | Path


@dataclass(frozen=True)
class RunOptions(TrainerOptions, LogOptions, TaskOptions):
    """Measure the loss of a checkpoint of a run, and its scores on the test split.

    Args:
        run: The run folder of a fit.
    """

    run: str | Path


class ValidateOptions(RunOptions):
    """Measure the loss of a checkpoint of a run, and its scores on the development split."""


@dataclass(frozen=True)
class CompareOptions(PlaceOptions, TaskOptions, TextOptions):
    """Compare encoders, layers, poolings, methods, corpora and seeds on tasks.

    Args:
        encoder: An encoder, its path, options whose path, layers, pooling and template may be
            lists, or a SentenceTransformer object, whose vectors are kept for this comparison
            alone; or a list of these.
        methods: Maps by name or import path (``whitening-128:shrinkage=0.1``, ``flow``,
            ``whitening-64+flow``), ``advised`` for what ``advise`` recommends for each encoder,
            and folders of models: ``raw,flow``.
        corpus: Sentences to fit maps on: ``target`` (all sentences of the task, without labels),
            ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``, such as
            ``target,nli``.
        max_sentences: Fit on a random subset of this many sentences, one for each seed.
        tasks: Tasks, such as ``STSB,a.csv``: STS12 to STS16, STSB, SICKR (``all`` for these seven),
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``,
            import paths.
        split: Splits to evaluate on: ``train``, ``dev``, ``test``, or several, as in ``dev,test``.
        columns: Columns of your pair files, for tasks and ``labels``: two sentences and the score,
            such as ``left,right,rating``.
        labels: Task or file whose labelled pairs supervised maps learn from; by default the
            train split of each task.
        drop_overlap: Remove labelled pairs that are also test pairs; otherwise they are an error.
        seeds: Seeds of the flows, and of the subsets of ``max_sentences``, such as ``0,1,2``.
        output: ``results.json`` to write. Each finished experiment is a file in ``results.records``
            and is reused with the same settings and versions of flowbert and torch.
    """

    encoder: EncoderOptions | Any = "builtin-sample"
    methods: Any = "raw,whitening"
    _: KW_ONLY
    corpus: Any = "target"
    max_sentences: Count | None = None
    tasks: Any = "SAMPLE"
    split: str | Sequence[str] = "test"
    skip_invalid: bool = False
    positive_above: Share = POSITIVE_ABOVE
    labels: str | None = None
    drop_overlap: bool = False
    seeds: int | Sequence[int] = 0
    bootstrap: CountOrZero = 1000
    bootstrap_seed: Seed = 0
    output: str | Path | None = None


@dataclass(frozen=True)
class AdviseOptions(TextOptions):
    """Choose layers, pooling and map for an encoder, without labels.

    Args:
        encoder: The encoder, its path, or its options; its layers and pooling are ignored.
        corpus: The corpus that the printed commands name, as of ``load_corpus``; its files must
            exist, and are not read.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.
    """

    encoder: EncoderOptions | str | Any = "builtin-sample"
    corpus: str | Any = "builtin-sample"
    _: KW_ONLY
    device: str | Any = "auto"


@dataclass(frozen=True)
class AnalyzeOptions(PlaceOptions, TextOptions):
    """Measure words, sentences and densities of an encoder before and after maps.

    Args:
        encoder: One encoder, its path or its options; models among the methods must have the same.
        methods: Maps by name or import path (``whitening-128:shrinkage=0.1``, ``flow``) and folders
            of models: ``raw,flow``.
        corpus: The sentences: files, ``hub:NAME``, ``nli``, or ``builtin-sample``.
        limit: Largest number of sentences to measure: at most half of the distinct ones.
        tasks: Tasks of scored pairs, whose cosines are shown by score: STS12 to STS16, STSB,
            SICKR, SAMPLE, or files, such as ``STSB,SICKR``.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Splits of the tasks: ``train``, ``dev``, ``test``, or several, as in ``dev,test``.
        columns: Columns of your pair files, two sentences and the score: ``a,b,score``.
        measures: Measures by name, or by import path (``mypackage.measures.my_measure``), with
            their options, such as ``isotropy,spectra``. ``all`` selects the built-in ones.
        seed: Seed of the sample and the flow.
        output: File to write, ending in ``.analysis.json``; ``report`` draws it.
    """

    encoder: EncoderOptions | str | Any = "builtin-sample"
    methods: Any = "raw,whitening,flow"
    _: KW_ONLY
    corpus: str | Any = "builtin-sample"
    limit: Count = 3000
    tasks: str | Sequence[str] = ()
    senteval: str | None = None
    split: str | Sequence[str] = "test"
    columns: str | Sequence[str] | None = None
    measures: str | Sequence[str] = "all"
    seed: Seed = 0
    output: str | Path | None = None


@dataclass(frozen=True)
class ReproduceOptions(PlaceOptions):
    """Measure published rows with their exact settings.

    Args:
        rows: Ids of published rows, their first parts up to a hyphen (``li2020``, ``li2020-2``), or
            patterns (``*-flow-target``), such as ``li2020,su2021``; by default all.
        encoder: Name of a published encoder, or a folder of that name and with its sizes, to run
            only its rows. Another folder, run folder or file of word vectors replaces the published
            encoders of all rows; the published scores are then context, not targets. A row
            selected by its id runs with any encoder.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        nli: NLI pairs of the rows that are fitted on NLI: ``hub``, or files.
        tasks: Tasks to evaluate on, such as ``STSB,SICKR``; by default STS12 to STS16, STSB
            and SICKR.
        seeds: Seeds of the flows; of several, such as ``0,1,2``, the mean score is compared.
        bootstrap: Number of resamples for the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
        output: FILE.json for all results; the comparison is also written to FILE.csv. Both are
            written whenever the rows of an encoder are finished. Finished experiments are stored in
            the folder FILE.records and reused.
        device: Device of encoders and flows, such as ``cuda:1``; ``auto`` for the GPU if there is
            one.
    """

    rows: str | Sequence[str] | None = None
    _: KW_ONLY
    encoder: str | None = None
    senteval: str | None = None
    nli: str = "hub"
    tasks: str | Sequence[str] | None = None
    seeds: int | Sequence[int] = 0
    bootstrap: CountOrZero = 1000
    bootstrap_seed: Seed = 0
    output: str | Path | None = None


@dataclass(frozen=True)
class ReportOptions(Options):
    """Write the page of a run, finished or not, or one page of several runs.

    Args:
        runs: A run folder of ``fit``, a results file of ``compare``, an ``.analysis.json`` file of
            ``analyze``, or several of them.
        output: The page, a file ending in .html; a folder next to it has its pictures and their
            data. By default ``report.html`` in a run folder, ``NAME.html`` next to ``NAME.json``,
            and ``comparison.html`` for several runs.
    """

    runs: str | Path | Sequence[str | Path]
    output: str | Path | None = None


@dataclass(frozen=True)
class EncodeOptions(Options):
    """Embed sentences with a fitted model or a frozen encoder, or map existing vectors.

    Args:
        sentences: The sentences; one string is one sentence.
        input: Text files with a sentence per line, or tables, instead of sentences; may be a glob,
            a pipe, or ``-`` for standard input.
        column: Column of the sentences in a table, or of the vectors in a file.
        vectors: File of vectors instead of sentences.
        model: Run folder of a finished fit, exported folder, or the hub name of one.
        method: Map of the model: ``flow``, ``whitening``, ``raw``; by default the flow, or the only
            map.
        encoder: The encoder, if no model is given; with a model, its folder if it has moved.
        precision: ``float32``; ``float16``; ``bfloat16`` in a .safetensors file; ``int8`` or
            ``uint8``, a byte per dimension; ``binary`` or ``ubinary``, a bit per dimension, as
            ``sentence_transformers.quantize_embeddings`` computes them.
        ranges: File with the ranges of each dimension for ``int8`` and ``uint8``, such as
            ``a.ranges.npy`` of an earlier output ``a.npy``. By default the ranges of 4,096
            of these vectors, which are written into such a file.
        output: File to write, ending in .npy, .safetensors or .parquet (with the sentences, or the
            other columns of a .parquet file of vectors). For .npy and .parquet only a block of
            vectors is in memory. An interrupted .npy file of sentences resumes with the same call.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.
        devices: Number of processes with a device each, started by Lightning; more than one
            requires a .npy output in float32.
        num_nodes: Number of machines with this many processes each, started by torchrun, with a
            shared disk.
    """

    sentences: str | Sequence[str] | None = None
    _: KW_ONLY
    input: str | Path | None = None
    column: str | None = None
    vectors: Any = None
    model: str | None = None
    method: str | None = None
    encoder: EncoderOptions | str = "builtin-sample"
    precision: str = "float32"
    ranges: Any = None
    output: str | Path | None = None
    device: str | Any = "auto"
    devices: Count = 1
    num_nodes: Count = 1


@dataclass(frozen=True)
class ExportOptions(Options):
    """Write a model as a folder for other programs, with a README.md for the hub.

    Args:
        model: A model, a run folder, or an encoder.
        to: New folder to write.
        format: ``sentence-transformers``, ``onnx``, or the import path of a format.
        method: Map of the run, ``raw`` for none; by default the flow, or the only map.
        encoder: Folder of the encoder, if it was moved.
        results: A results.json with the scores that the README.md shows, found by the encoder and
            the settings of the map; by default the one of the run.
        license: License, by its name on the hub, such as ``apache-2.0``.
        push_to: Repository ``owner/name`` on the hub to upload the folder to, with the token of
            ``hf auth login`` or HF_TOKEN.
        private: Make a new repository private; an existing one keeps its setting.
    """

    model: str | Path | Any
    to: str | Path
    _: KW_ONLY
    format: str = "sentence-transformers"
    method: str | None = None
    encoder: str | None = None
    results: str | Path | None = None
    license: str | None = None
    push_to: str | None = None
    private: bool = True
