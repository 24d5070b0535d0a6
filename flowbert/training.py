"""A training run: prepared, trained by Lightning, compared with its baselines, saved."""

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningModule, Trainer, seed_everything

from flowbert.analysis.cls_token import warn_of_cls
from flowbert.analysis.density import density_bits
from flowbert.analysis.words import token_frames
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.encoders import (
    EmbeddingCache,
    EncoderOptions,
    SentenceEncoder,
    open_encoder,
)
from flowbert.encoders.cpu import warn_of_bfloat16
from flowbert.errors import FlowbertWarning, UserError, check_choice
from flowbert.evaluation import Results, compare
from flowbert.evaluation.methods import Method, fit_map
from flowbert.evaluation.spaces import analyze_results
from flowbert.loggers import LOG_TO, log_results, make_loggers
from flowbert.maps import (
    Flow,
    Raw,
    Scale,
    check_map,
    make_map,
    map_names,
    open_vectors,
)
from flowbert.model import Model, save_models
from flowbert.modules import (
    AtomicCheckpointIO,
    FlowModule,
    MLMModule,
    RowsDataModule,
    SBERTModule,
    SimCSEModule,
    StepLog,
    TaskEvaluation,
    TextDataModule,
    VectorWriter,
    WhiteningBaseline,
    checkpoint_callbacks,
    make_examples,
    read_checkpoint,
)
from flowbert.modules.base import check_limits
from flowbert.modules.examples import Examples, used_options
from flowbert.modules.trainer import quiet_lightning
from flowbert.reports import report
from flowbert.seeding import Stream
from flowbert.tasks import STS, Task, load_tasks

MODULES: dict[str, type[LightningModule]] = {
    "flow": FlowModule,
    "simcse": SimCSEModule,
    "sbert": SBERTModule,
    "mlm": MLMModule,
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

_RUN_DIR = "FLOWBERT_RUN_DIR"  # processes that Lightning starts write into the first one's folder
_SCALE_ROWS = 8192  # rows whose vectors set the scale of int8
_DENSITY_ROWS = (
    20_000  # rows that Gaussians are fitted on, beside the density of the flow
)
_COUNTED = 100_000  # sentences whose tokens are counted for the page


class Run:
    """A method, its data and a Trainer in a run folder.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, or a map that is fitted in closed form,
            such as ``whitening:shrinkage=0.3``.
        encoder: The encoder, or its path.
        corpus: What is fitted on: ``target`` (the default: all sentences of the first task, labels
            unused), ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``.
        nli: NLI pairs: ``hub`` (the default), ``builtin-sample``, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Fit on a random subset of so many sentences or examples.
        tasks: Tasks that are measured, a list or comma-separated: STS12 to STS16, STSB, SICKR,
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        vectors: File of vectors in place of encoder and corpus; nothing is measured then.
        baseline: Closed-form map beside the flow; ``none`` for none.
        model: Hyper-parameters of the module.
        data: Options of the data module, and of the examples of methods that train the encoder.
        checkpoint: Options of :func:`flowbert.modules.checkpoint_callbacks`.
        trainer: Options of Lightning's Trainer.
        log_to: Loggers beside metrics.csv: ``wandb``, ``wandb-offline``, ``tensorboard``.
        seed: Seed of everything random.
        run_dir: Run folder; None for ``runs/METHOD/TIME``.
        ckpt_path: Checkpoint to go on from, or to validate, test or predict with.
        resume: Whether a training goes on from the checkpoint; its hyper-parameters are binding
            then, and otherwise taken over.
        split: Split that is measured: ``dev`` for :meth:`validate`.
        cache: Folder of the embedding cache.

    Attributes:
        folder: The run folder.
        encoder: The encoder before the training; None for vectors.
        module: The LightningModule; None for a closed-form map.
        data: The data module.
        trainer: The Trainer.
        corpus: Name of what is fitted on.

    Raises:
        UserError: If an argument is wrong; nothing has been written then.
    """

    encoder: Any = None
    module: Any = None
    data: Any = None

    def __init__(
        self,
        method: str = "flow",
        encoder: EncoderOptions | str = "builtin-sample",
        *,
        corpus: str | None = None,
        nli: str | None = None,
        column: str | None = None,
        max_sentences: int | None = None,
        tasks: str | Sequence[str] = "SAMPLE",
        senteval: str | None = None,
        vectors: Any = None,
        baseline: str | None = "whitening",
        model: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        trainer: Mapping[str, Any] | None = None,
        log_to: str | Sequence[str] = (),
        seed: int = 0,
        run_dir: str | Path | None = None,
        ckpt_path: str | Path | None = None,
        resume: bool = True,
        split: str = "test",
        cache: str | None = None,
    ) -> None:
        self.log_to = as_list(log_to or None, "log_to")
        for name in self.log_to:
            check_choice("log_to", name, LOG_TO)
        self.method, self.senteval = method, senteval
        self.ckpt_path = ckpt_path
        self.options = EncoderOptions(encoder) if isinstance(encoder, str) else encoder
        if method.isalpha():  # no option, no number
            check_choice("method", method, dict.fromkeys([*MODULES, *map_names()]))
        self.template = None if method in MODULES else make_map(method)
        self.baseline = None
        if baseline is not None and baseline != "none" and method == "flow":
            self.baseline = WhiteningBaseline(make_map(baseline))
        model, data = dict(model or {}, seed=seed), dict(data or {})
        if ckpt_path is not None:
            model = match_checkpoint(method, model, ckpt_path, resume)
        self.seed = model["seed"]
        self.task_names = (
            [] if vectors is not None else as_list(tasks, "tasks", paths=True)
        )
        self.tasks = self._load_tasks(split)
        self.cache = EmbeddingCache(cache)
        self.folder = choose_run_dir(run_dir, method)
        check_limits(seed=self.seed)
        seed_everything(self.seed % 2**32, workers=True, verbose=False)
        self.trainer = self._make_trainer(checkpoint or {}, trainer or {})
        self.device: torch.device = self.trainer.strategy.root_device
        if "bf16" in str(self.trainer.precision) and self.device.type == "cpu":
            warn_of_bfloat16()
        if vectors is not None:
            self.rows = open_vectors(vectors, column)
            fitted_on: Any = self.rows
            self._check_maps(self.rows.shape[1], model, data)
        elif method in MODULES and method != "flow":
            fitted_on = self._prepare_examples(
                corpus, nli, column, max_sentences, model, data
            )
        else:
            fitted_on = self._load_corpus(corpus, nli, column)
            if max_sentences is not None:
                fitted_on = fitted_on.sample(max_sentences, self.seed)
            self.sentences = fitted_on.sentences
            self.encoder = open_encoder(self.options, self.sentences, self.device)
            self._check_maps(self.encoder.dim, model, data)
            self._encode()
            if ckpt_path is None and self.trainer.is_global_zero:
                warn_of_cls(self.encoder, self.sentences, self.cache, self.seed)
        self.corpus, self.digest = fitted_on.name, fitted_on.digest
        if method == "flow":
            data |= {"seed": self.seed, "name": self.corpus, "digest": self.digest}
            self.data = RowsDataModule(self.rows, **data)

    def _load_tasks(self, split: str) -> list[Task]:
        if not self.task_names:
            return []
        return load_tasks(self.task_names, self.senteval, split=split)

    def _check_maps(
        self, dim: int, model: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        """Find what does not fit vectors of this size before anything is encoded."""
        check_limits(**data)
        if self.method == "flow":
            self.module = FlowModule(dim, **model)
        if self.baseline is not None:
            check_map(self.baseline.map, dim)
        if self.template is not None:
            check_map(self.template, dim)

    def _make_trainer(
        self, checkpoint: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """A Trainer that writes into the run folder, with the callbacks of all methods."""
        validated = [
            STS(task.data, "dev")
            for task in self.tasks
            if isinstance(task, STS) and "dev" in task.data.splits
        ]
        monitor = None
        # A frozen encoder's method sees no label.
        if self.method != "flow" and validated:
            monitor = f"{self.method}/{validated[0].name}/dev/spearman_all"
        callbacks = [
            *([] if self.baseline is None else [self.baseline]),
            TaskEvaluation(validated, self._embed, self.baseline),
            StepLog(),
            *checkpoint_callbacks(self.folder / "checkpoints", monitor, **checkpoint),
        ]
        settings: dict[str, Any] = {**TRAINER_DEFAULTS, **options}
        added: dict[str, list[Any]] = {
            "callbacks": callbacks,
            "plugins": [AtomicCheckpointIO()],
        }
        for name, own in added.items():
            given = settings.get(name) or []
            settings[name] = [*(given if isinstance(given, list) else [given]), *own]
        try:
            with quiet_lightning():
                return Trainer(**settings, default_root_dir=str(self.folder))
        except (ImportError, ValueError, TypeError) as error:
            raise UserError(f"trainer: {error}") from error

    def _encode(self) -> None:
        """Encode the corpus and the tasks, before any training."""
        measured = [text for task in self.tasks for text in task.sentences]
        self.cache.fill([self.encoder], [*self.sentences, *measured])
        self.rows = self.cache.rows(self.encoder, self.sentences)

    def _prepare_examples(
        self,
        corpus: str | None,
        nli: str | None,
        column: str | None,
        max_sentences: int | None,
        model: Mapping[str, Any],
        data: dict[str, Any],
    ) -> Examples:
        """Make the examples, and load the encoder to train beside the one that it starts from."""
        names = inspect.signature(make_examples).parameters.keys()
        options = {name: data.pop(name) for name in names & data.keys()}
        if "objective" in model:
            options["objective"] = model["objective"]
        loaded = None
        if "corpus" in used_options(self.method, corpus=corpus, nli=nli, **options):
            loaded = self._load_corpus(corpus, nli, column)
        examples = make_examples(
            self.method, loaded, nli=nli, tasks=self.tasks, **options
        )
        if max_sentences is not None:
            examples = examples.sample(max_sentences, self.seed)
        self.sentences = examples.columns[0]
        self.encoder = open_encoder(self.options, self.sentences, self.device)
        trained = SentenceEncoder(
            **self.encoder.describe(),
            token_weights=self.encoder.token_weights,
            frozen=False,
        )
        self.data = TextDataModule(trained, examples, **data, seed=self.seed)
        self.module = MODULES[self.method](trained, **model)
        self.module.check_examples(examples)
        return examples

    def _load_corpus(
        self, corpus: str | None, nli: str | None, column: str | None
    ) -> Corpus:
        corpus = corpus or "target"
        if self.tasks and corpus in ("target", "train_only"):
            return self.tasks[0].corpus(corpus)
        return load_corpus(corpus, nli=nli or "hub", column=column)

    def _embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training."""
        return self.cache.embed(self.encoder, sentences)

    def fit(self) -> Results:
        """Train, compare with the baselines on the test split, save everything.

        Returns:
            The results; empty on all processes but the first.
        """
        if self.template is not None:
            fitted, flaw = fit_map(self.template, self.rows, seed=self.seed)
            if flaw is not None:
                raise UserError(f"method: {self.method}: {flaw}")
            seed = self.seed if fitted.seeded else None
            methods = [Method(self.method, fitted, True, self.corpus, seed)]
        else:
            try:
                self._call("fit")
            except BaseException:
                if self.trainer.is_global_zero:
                    self._write_page()
                raise
            if not self.trainer.is_global_zero or self.trainer.fast_dev_run:
                return Results([], {})
            best = self.folder / "checkpoints" / "best.ckpt"  # on the development split
            if best.is_file():
                self.module.load_state_dict(read_checkpoint(best)["state_dict"])
            methods = self._trained_methods()
        self._save(methods)
        return self._compare(methods, "test")

    def validate(self) -> Results:
        """Log the likelihood or loss of a checkpoint, and compare on the development split."""
        self._load_tasks("dev")  # a task without one is told before the pass
        self._call("validate")
        return self._compare(self._trained_methods(), "dev")

    def test(self) -> Results:
        """Log the likelihood or loss of a checkpoint, and compare on the test split."""
        self._call("test")
        return self._compare(self._trained_methods(), "test")

    def predict(self) -> Path:
        """Write the vectors of what is fitted on into ``predictions.npy``; its path."""
        if self.method == "flow":
            shape = self.rows.shape
        else:
            shape = len(self.sentences), self.encoder.dim
        path = self.folder / "predictions.npy"
        self.trainer.callbacks.append(VectorWriter(path, shape))
        self._call("predict", return_predictions=False)
        return path

    def _call(self, command: str, **options: Any) -> None:
        """Call the Trainer."""
        if self.module is None:
            raise UserError(
                f"method: received {self.method}, which is fitted without a Trainer; expected "
                f"{', '.join(MODULES)}"
            )
        self.trainer.loggers += make_loggers(self.log_to, self.folder)
        with quiet_lightning():
            getattr(self.trainer, command)(
                self.module,
                datamodule=self.data,
                ckpt_path=self.ckpt_path,
                weights_only=True,
                **options,
            )

    def _trained_methods(self) -> list[Method]:
        """The trained method, and the baseline before it."""
        if self.method == "flow":
            flow = Flow.from_module(self.module)
            methods = [Method("flow", flow, True, self.corpus, self.seed)]
            if self.baseline is not None:
                fitted = self.baseline.map
                methods.insert(0, Method(fitted.name, fitted, True, self.corpus))
            return methods
        trained = self.module.trained_encoder().to(self.device)
        raw = Raw().fit(torch.zeros(1, trained.dim))
        return [Method(self.method, raw, True, self.corpus, self.seed, trained)]

    def _save(self, methods: Sequence[Method]) -> None:
        """Save the maps with their int8 scales, or the trained encoder."""
        folder = self.folder / "model"
        if isinstance(self.data, TextDataModule):
            self.module.trained_encoder().save(folder / "encoder")
            return
        step = max(1, len(self.rows) // _SCALE_ROWS)
        sample = self.rows[np.arange(0, len(self.rows), step)]
        models = [Model(self.encoder, None, Scale.of(sample))]
        for method in methods:
            scale = Scale.of(method.map.transform(sample))
            models.append(Model(self.encoder, method.map, scale))
        save_models(models, folder)

    def _compare(self, methods: Sequence[Method], split: str) -> Results:
        """Compare with the raw embeddings, and write results and page."""
        results = Results([], {})
        if not self.trainer.is_global_zero:
            return results
        if self.tasks:
            others = [method for method in methods if method.name != "raw"]
            results = compare(
                self.encoder,
                [Method("raw", Raw()), *others],
                tasks=self.task_names,
                senteval=self.senteval,
                split=split,
                cache=self.cache,
                device=self.device,
            )
        results.record["fitted_on"] = {"name": self.corpus, "digest": self.digest}
        results.save(self.folder / "results.json")
        self._write_page(results)
        log_results(self.trainer.loggers, self.folder, results)
        return results

    def _write_page(self, results: Results | None = None) -> None:
        """Write the page; what goes wrong is a warning, as the results are on the disk."""
        if os.environ.get("FLOWBERT_REPORT") == "0" or not self.folder.is_dir():
            return
        try:
            if results is not None and results.vectors:
                self._analyze(results)
            report(self.folder)
        except Exception as error:
            message = f"{self.folder}: no whole page ({error}); its results are written"
            warnings.warn(message, FlowbertWarning, stacklevel=2)

    def _analyze(self, results: Results) -> None:
        """Write the analysis of the vectors, and of the tokens of the encoder."""
        parts: dict[str, Any] = {}
        if isinstance(self.encoder, SentenceEncoder):
            corpus = self.sentences[:_COUNTED]
            parts = token_frames(
                self.encoder, results.sentences, corpus, 500, seed=self.seed
            )
        if self.method == "flow" and self.module.flaw is None:
            rows, held = self.data.rows, self.data.held_out_rows
            if len(held) > 1 and len(rows) > rows.shape[1]:
                # Few rows would fit the Gaussians worse than the flow, which has seen all.
                fitting = rows.sample(_DENSITY_ROWS, Stream(self.seed, "density"))
                parts["bits"] = density_bits(
                    self.module.flow,
                    torch.from_numpy(rows[fitting]),
                    torch.from_numpy(held[:]),
                )
        analyze_results(results, **parts).to_json(self.folder / "analysis.json")


def fit(
    method: str = "flow",
    encoder: EncoderOptions | str = "builtin-sample",
    **options: Any,
) -> Results:
    """Train a method, compare it with its baselines on the test split, save everything.

    Args:
        method: ``flow``, ``simcse``, ``sbert``, ``mlm``, or a map that is fitted in closed form.
        encoder: The encoder, or its path.
        **options: Further arguments of :class:`Run`.

    Returns:
        The results of :func:`flowbert.compare`.

    Raises:
        UserError: If an argument is wrong.
    """
    return Run(method, encoder, **options).fit()


def match_checkpoint(
    method: str, model: Mapping[str, Any], path: str | Path, resume: bool
) -> dict[str, Any]:
    """Hyper-parameters of a module that a checkpoint is loaded into.

    Args:
        method: The method.
        model: Hyper-parameters as given.
        path: The checkpoint.
        resume: Whether a training goes on, for which no other value than the saved one is allowed.

    Raises:
        UserError: If the checkpoint is one of another method, or a given value differs from the
            saved one.
    """
    content = read_checkpoint(path)
    kind = MODULES.get(method)
    if kind is None or content["module"] != kind.__name__:
        raise UserError(
            f"ckpt_path: {path} is of {content['module']}; expected one of method {method}"
        )
    defaults: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, parameter in inspect.signature(base).parameters.items():
            defaults[name] = parameter.default
    binding = content["hyper_parameters"]
    binding.pop("dim", None)
    for name, saved in binding.items():
        given = model.get(name, saved)
        if given != saved and (resume or given != defaults.get(name)):
            raise UserError(
                f"{name}: received {given!r} for {path}; expected {saved!r}, as saved"
            )
    return {**model, **binding}


def choose_run_dir(run_dir: str | Path | None, name: str) -> Path:
    """The folder of a new run, or of one that goes on; a finished run is never overwritten.

    Raises:
        UserError: If the folder holds a finished run, or is a file.
    """
    if "LOCAL_RANK" in os.environ and _RUN_DIR in os.environ:
        return Path(os.environ[_RUN_DIR])
    if run_dir is None and "LOCAL_RANK" in os.environ:
        raise UserError("run_dir: received nothing under torchrun; expected a folder")
    time = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / name.split(":")[0] / time
    if run_dir is not None:
        folder = Path(run_dir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"run_dir: {folder} is a file; expected a folder")
    if (folder / "results.json").exists():
        raise UserError(
            f"run_dir: {folder} holds a finished run; expected another folder"
        )
    os.environ[_RUN_DIR] = str(folder.resolve())
    return folder
