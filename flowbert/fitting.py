"""A training run: prepared, trained by Lightning, compared with its baselines, saved."""

import inspect
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningModule

from flowbert.analysis.cls_token import warn_of_cls
from flowbert.analysis.density import density_bits
from flowbert.analysis.words import token_frames
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.data.sts import Subset
from flowbert.encoders import (
    EncoderOptions,
    SentenceEncoder,
    check_same_encoder,
    open_encoder,
)
from flowbert.encoders.cpu import warn_of_bfloat16
from flowbert.errors import (
    FlowbertWarning,
    UserError,
    check_choice,
    check_used,
    hear_warnings,
)
from flowbert.experiments import Results, compare
from flowbert.experiments.analyze import analyze_results
from flowbert.experiments.candidates import Candidate
from flowbert.experiments.run import fit_map
from flowbert.experiments.transfer import warn_of_transfer
from flowbert.loggers import (
    LOG_TO,
    log_results,
    make_loggers,
    make_named_loggers,
)
from flowbert.maps import (
    MAPS,
    AnyMap,
    Flow,
    LabelledPairs,
    Raw,
    Scale,
    check_map,
    make_map,
    steps_of,
)
from flowbert.methods import (
    FlowModule,
    MLMModule,
    SBERTModule,
    SimCSEModule,
    TextDataModule,
    make_examples,
)
from flowbert.methods.examples import used_options
from flowbert.model import Model, save_models
from flowbert.reports import report
from flowbert.seeding import Stream
from flowbert.tasks import STS, Task, load_tasks
from flowbert.tasks.labels import embed_pairs, labels_of
from flowbert.training import (
    AtomicCheckpointIO,
    RowsDataModule,
    StepLog,
    TaskEvaluation,
    VectorWriter,
    WhiteningBaseline,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.base import check_limits
from flowbert.training.checkpoints import BestCheckpoint
from flowbert.training.run_folder import RunFolder, new_folder
from flowbert.training.settings import check_settings, describe
from flowbert.training.trainer import make_trainer, quiet_lightning, seeded
from flowbert.training.unused import check_given, unused_options
from flowbert.vectors import EmbeddingCache, as_vectors

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

# What a run sets of its data by itself, and how many processes make it.
_SET_BY_RUN = ("digest", "name", "nli", "objective", "seed", "tasks", "workers")
_NOT_ADOPTED = ("dim", "loss")  # the encoder's, and an object
# When and on what is looked for the best weights.
_VALIDATION = ("val_check_interval", "check_val_every_n_epoch", "limit_val_batches")
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
            unused), ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``; in Python
            sentences in memory, too, see :func:`flowbert.data.corpus.load_corpus`.
        nli: NLI pairs: ``hub`` (the default), ``builtin-sample``, or files.
        column: Column of the sentences, or of the vectors, in table files.
        max_sentences: Fit on a random subset of so many sentences or examples.
        tasks: Tasks that are measured, a list or comma-separated: STS12 to STS16, STSB, SICKR,
            SAMPLE, files of scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        vectors: File of vectors in place of encoder and corpus; nothing is measured then. In Python
            an array or tensor ``(N, D)``, too.
        baseline: Closed-form map beside the flow; ``none`` for none.
        model: Hyper-parameters of the module.
        data: Options of the data module, and of the examples of methods that train the encoder.
        checkpoint: Options of :func:`flowbert.training.checkpoint_callbacks`.
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
    heard: Sequence[str] = ()
    module: Any = None
    data: Any = None

    def __init__(
        self,
        method: str = "flow",
        encoder: EncoderOptions | str = "builtin-sample",
        *,
        corpus: str | Any | None = None,
        nli: str | None = None,
        column: str | None = None,
        max_sentences: int | None = None,
        tasks: str | Sequence[str] | None = None,
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
        self.options = EncoderOptions(encoder) if isinstance(encoder, str) else encoder
        if method.isalpha():  # no option, no number
            check_choice("method", method, dict.fromkeys([*MODULES, *MAPS]))
        self.template = None if method in MODULES else make_map(method)
        self._saved: dict[str, Any] = {}
        if ckpt_path is not None:
            self._saved = saved_settings(method, ckpt_path)
        groups = {"checkpoint": checkpoint, "trainer": trainer}
        given = _given(self.options, groups, **_named(locals()))
        check_given(given, unused_options(method, vectors is not None, corpus))
        self.ckpt_path, self.resumes = ckpt_path, resume and ckpt_path is not None
        model, data = dict(model or {}), dict(data or {})
        if seed or resume or ckpt_path is None:
            model["seed"] = seed
        if ckpt_path is not None:
            model = adopt("model", model, self._saved, ckpt_path)
            data = adopt("data", data, self._saved, ckpt_path)
        self.seed = model["seed"]
        check_limits(seed=self.seed)
        self.task_names = []
        if vectors is None:
            named = "SAMPLE" if tasks is None else tasks
            self.task_names = as_list(named, "tasks", paths=True)
        self.tasks = self._load_tasks(split)
        self._labels: tuple[Subset, ...] = ()
        self.baseline = None
        if baseline not in (None, "none") and method == "flow":
            self.baseline = self._make_baseline(baseline)
        if self.template is not None and _supervised(self.template):
            self._labels = self._load_labels("method", method)
        self.cache = EmbeddingCache(cache)
        self.folder = Path(run_dir) if run_dir is not None else new_folder(method)
        self.settings: dict[str, Any] = {"method": method}
        self.trainer = self._make_trainer(checkpoint or {}, trainer or {})
        self.device: torch.device = self.trainer.strategy.root_device
        self.is_first: bool = self.trainer.is_global_zero
        if self.is_first:
            own = ckpt_path if self.resumes else None
            self._claim = RunFolder(self.folder, own, resume and method in MODULES)
        try:
            with seeded(self.seed):
                self._prepare(corpus, nli, column, max_sentences, vectors, model, data)
        except BaseException:
            if self.is_first:
                self._claim.abandon()
            raise

    def _prepare(
        self,
        corpus: Any,
        nli: str | None,
        column: str | None,
        max_sentences: int | None,
        vectors: Any,
        model: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> None:
        """Load what is fitted on, open the encoder, encode, and make module and data."""
        if "bf16" in str(self.trainer.precision) and self.device.type == "cpu":
            warn_of_bfloat16()
        self.settings |= _data_settings(self.method, data)
        # What is fitted on a subset depends on the seed that it was drawn with.
        self._seed_of_sample = None if max_sentences is None else self.seed
        if vectors is not None:
            self.rows = as_vectors(vectors, column)
            self._set_fitted_on(self.rows)
            self._check_encoder(None)
            self._check_maps(self.rows.shape[1], model, data)
        elif self.method in MODULES and self.method != "flow":
            self._prepare_examples(corpus, nli, column, max_sentences, model, data)
        else:
            fitted_on = self._load_corpus(corpus, nli, column)
            if max_sentences is not None:
                fitted_on = fitted_on.sample(max_sentences, self.seed)
            self._set_fitted_on(fitted_on)
            self.sentences = fitted_on.sentences
            self.encoder = open_encoder(self.options, self.sentences, self.device)
            self._check_encoder(self.encoder.identity)
            self._check_maps(self.encoder.dim, model, data)
            self._encode()
            if self.ckpt_path is None and self.is_first:
                warn_of_cls(self.encoder, self.sentences, self.cache, self.seed)
        if self.method == "flow":
            named = {"seed": self.seed, "name": self.corpus, "digest": self.digest}
            self.data = RowsDataModule(self.rows, **data, **named)
        if self.module is not None:
            self.module.run_settings = self.settings
            if self.ckpt_path is not None:
                check_settings(
                    self._saved, self.module.model_settings(), self.ckpt_path
                )

    def _set_fitted_on(self, fitted_on: Any) -> None:
        """Keep name and digest of what is fitted on.

        Raises:
            UserError: If the checkpoint was fitted on something else.
        """
        self.corpus, self.digest = fitted_on.name, fitted_on.digest
        self.settings["corpus"] = {"name": self.corpus, "digest": self.digest}
        saved = self._saved.get("corpus", self.settings["corpus"])
        if saved["digest"] != self.digest:
            raise UserError(
                f"received {self.corpus!r} for {self.ckpt_path}, which was fitted on other "
                f"sentences or vectors ({saved['name']!r}); expected the same ones",
                argument="corpus",
            )

    def _check_encoder(self, identity: dict[str, Any] | None) -> None:
        """Keep which encoder the vectors are of.

        Raises:
            UserError: If the checkpoint was fitted with another one.
        """
        self.settings["encoder"] = identity
        saved = self._saved.get("encoder", identity)
        if saved is not None and identity is not None:
            check_same_encoder(saved, identity, f"checkpoint {self.ckpt_path}")
        elif saved != identity:
            fitted, here = (
                "vectors" if each is None else "sentences" for each in (saved, identity)
            )
            raise UserError(
                f"{self.ckpt_path} was fitted on {fitted}; received {here}",
                argument="ckpt_path",
            )

    def _make_baseline(self, text: str) -> WhiteningBaseline:
        """The map beside the flow.

        Raises:
            UserError: If it is none that is fitted in closed form.
        """
        made = make_map(text)
        if any(step.seeded or step.name == "raw" for step in steps_of(made)):
            raise UserError(
                argument="baseline",
                received=text,
                expected=(
                    "a map that is fitted in closed form, or "
                    "none (raw is compared anyway)"
                ),
            )
        if not _supervised(made):
            return WhiteningBaseline(made)
        self._labels = self._load_labels("baseline", text)
        return WhiteningBaseline(made, self._pairs)

    def _load_labels(self, argument: str, text: str) -> tuple[Subset, ...]:
        """Labelled pairs of the first task, as in a comparison on it."""
        if not self.tasks:
            raise UserError(
                f"received {text!r}, which learns from the labelled pairs of a task; "
                "expected another map with vectors",
                argument=argument,
            )
        return labels_of(self.tasks[0], self.tasks)

    def _pairs(self) -> LabelledPairs | None:
        """Vectors of the labelled pairs; None without any."""
        return embed_pairs(self._embed, self._labels) if self._labels else None

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
        self.settings["baseline"] = None
        if self.baseline is not None:
            self.settings["baseline"] = self.baseline.name
        if monitor is not None:
            # When is looked for the best weights decides which they are.
            self.settings |= {
                "best": {"figure": monitor, "task": validated[0].digest},
                **{f"trainer.{name}": options.get(name) for name in _VALIDATION},
            }
        callbacks = [
            *([] if self.baseline is None else [self.baseline]),
            TaskEvaluation(validated, self._embed, self.baseline),
            StepLog(),
            *checkpoint_callbacks(self.folder / "checkpoints", monitor, **checkpoint),
        ]
        return make_trainer(
            {**TRAINER_DEFAULTS, **options},
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO()],
            default_root_dir=str(self.folder),
        )

    def _encode(self) -> None:
        """Encode the corpus and the tasks, before any training."""
        measured = [text for task in self.tasks for text in task.sentences]
        labelled = [
            text
            for subset in self._labels
            for text in (*subset.sentences1, *subset.sentences2)
        ]
        self.cache.fill([self.encoder], [*self.sentences, *measured, *labelled])
        self.rows = self.cache.rows(self.encoder, self.sentences)

    def _prepare_examples(
        self,
        corpus: Any,
        nli: str | None,
        column: str | None,
        max_sentences: int | None,
        model: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> None:
        """Make the examples, and load the encoder to train beside the one that it starts from."""
        data = dict(data)
        names = inspect.signature(make_examples).parameters.keys()
        options = {name: data.pop(name) for name in names & data.keys()}
        if "objective" in model:
            options["objective"] = model["objective"]
        loaded = None
        named = corpus if corpus is None or isinstance(corpus, str) else "in memory"
        if "corpus" in used_options(self.method, corpus=named, nli=nli, **options):
            loaded = self._load_corpus(corpus, nli, column)
        else:
            check_used({"column": column}, (), f"method {self.method}")
        examples = make_examples(
            self.method, loaded, nli=nli, tasks=self.tasks, **options
        )
        if max_sentences is not None:
            examples = examples.sample(max_sentences, self.seed)
        self._set_fitted_on(examples)
        self.sentences = examples.columns[0]
        self.encoder = open_encoder(self.options, self.sentences, self.device)
        if not isinstance(self.encoder, SentenceEncoder):
            raise UserError(
                f"received {self.encoder.path}; expected a transformer to train",
                argument="encoder",
            )
        self._check_encoder(self.encoder.identity)
        trained = SentenceEncoder(
            **self.encoder.describe(),
            token_weights=self.encoder.token_weights,
            frozen=False,
        )
        self.data = TextDataModule(trained, examples, **data, seed=self.seed)
        self.module = MODULES[self.method](trained, **model)
        self.module.check_examples(examples)

    def _load_corpus(self, corpus: Any, nli: str | None, column: str | None) -> Corpus:
        corpus = "target" if corpus is None else corpus
        if (
            self.tasks
            and isinstance(corpus, str)
            and corpus in ("target", "train_only")
        ):
            given = {"nli": nli, "column": column}
            check_used(given, (), f"the corpus {corpus}")
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
        with hear_warnings() as self.heard, self._claimed():
            if self.template is not None:
                methods = [self._fit_in_closed_form(self.template)]
            else:
                try:
                    self._call("fit")
                except BaseException:
                    if self.is_first:
                        self._write_page()
                    raise
                if not self.is_first or self.trainer.fast_dev_run:
                    return Results([], {})
                self._take_best()
                methods = self._trained_methods()
            if self.is_first:
                self._save(methods)
            return self._compare(methods, "test")

    def _fit_in_closed_form(self, template: AnyMap) -> Candidate:
        """The fitted map as a method."""
        self.trainer.loggers += make_named_loggers(self.log_to, self.folder)
        fitted, reason = fit_map(
            template,
            self.rows,
            pairs=self._pairs(),
            seed=self.seed,
            device=self.device,
        )
        if reason is not None:
            raise UserError(f"{self.method}: {reason}", argument="method")
        seed = self.seed if fitted.seeded else self._seed_of_sample
        return Candidate(self.method, fitted, True, self.corpus, seed)

    def _take_best(self) -> None:
        """Take the weights of the best figure on the development split, where one is looked at."""
        for callback in self.trainer.callbacks:
            if isinstance(callback, BestCheckpoint):
                weights = callback.best_weights(self.trainer.global_step)
                if weights is not None:
                    self.module.load_state_dict(weights)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Hold the run folder while this run writes into it."""
        if not self.is_first:
            yield
            return
        self._claim.hold()
        try:
            yield
        finally:
            self._claim.release()

    def validate(self) -> Results:
        """Log the likelihood or loss of a checkpoint, and compare on the development split."""
        self._load_tasks("dev")  # a task without one is told before the pass
        with self._claimed():
            self._call("validate")
            return self._compare(self._trained_methods(), "dev")

    def test(self) -> Results:
        """Log the likelihood or loss of a checkpoint, and compare on the test split."""
        with self._claimed():
            self._call("test")
            return self._compare(self._trained_methods(), "test")

    def predict(self) -> Path:
        """Write the vectors of what is fitted on into ``predictions.npy``; its path."""
        if self.method == "flow":
            shape = self.rows.shape
        else:
            shape = len(self.sentences), self.encoder.dim
        writer = VectorWriter(self.folder / "predictions.npy", shape)
        self.trainer.callbacks.append(writer)
        with self._claimed():
            self._call("predict", return_predictions=False)
        return writer.path

    def _call(self, command: str, **options: Any) -> None:
        """Call the Trainer."""
        if self.module is None:
            raise UserError(
                f"received {self.method}, which is fitted without a Trainer; expected "
                f"{', '.join(MODULES)}",
                argument="method",
            )
        if self.is_first:
            self.trainer.loggers += make_loggers(self.log_to, self.folder)
        with quiet_lightning(), seeded(self.seed):
            getattr(self.trainer, command)(
                self.module,
                datamodule=self.data,
                ckpt_path=self.ckpt_path,
                weights_only=True,
                **options,
            )

    def _trained_methods(self) -> list[Candidate]:
        """The trained method, and the baseline before it."""
        if self.method == "flow":
            flow = Flow.from_module(self.module)
            methods = [Candidate("flow", flow, True, self.corpus, self.seed)]
            if self.baseline is not None:
                fitted = self.baseline.map
                named = self.baseline.name, fitted, True, self.corpus
                methods.insert(0, Candidate(*named, self._seed_of_sample))
            return methods
        trained = self.module.trained_encoder().to(self.device)
        raw = Raw().fit(torch.zeros(1, trained.dim))
        return [Candidate(self.method, raw, True, self.corpus, self.seed, trained)]

    def _save(self, methods: Sequence[Candidate]) -> None:
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

    def _compare(self, methods: Sequence[Candidate], split: str) -> Results:
        """Compare with the raw embeddings, and write results and page."""
        results = Results([], {})
        if not self.is_first:
            return results
        if self.tasks:
            others = [method for method in methods if method.name != "raw"]
            results = compare(
                self.encoder,
                [Candidate("raw", Raw()), *others],
                tasks=self.task_names,
                senteval=self.senteval,
                split=split,
                cache=self.cache,
                device=self.device,
            )
            frozen = [method for method in others if method.encoder is None]
            warn_of_transfer(self.corpus, self.tasks, self.encoder, frozen, self.cache)
        warned = [*self.heard, *results.record.get("warnings", [])]
        results.record["warnings"] = list(dict.fromkeys(warned))
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
        if self.method == "flow" and self.module.invalid_reason is None:
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


def saved_settings(method: str, path: str | Path) -> dict[str, Any]:
    """What decided the training of a checkpoint.

    Raises:
        UserError: If the checkpoint is one of another method, or does not say how it was trained.
    """
    content = read_checkpoint(path)
    kind = MODULES.get(method)
    if kind is None or content["module"] != kind.__name__:
        raise UserError(
            f"{path} is of {content['module']}; expected one of method {method}",
            argument="ckpt_path",
        )
    settings = content.get("settings")
    if not isinstance(settings, dict) or not {"encoder", "corpus"} <= settings.keys():
        raise UserError(
            f"{path} does not say which encoder and corpus it was fitted on; expected a "
            "checkpoint that fit of this version wrote",
            argument="ckpt_path",
        )
    return settings


def adopt(
    group: str, given: Mapping[str, Any], saved: Mapping[str, Any], path: str | Path
) -> dict[str, Any]:
    """Options of a group, those that are not given as in a checkpoint.

    Args:
        group: ``model`` or ``data``.
        given: Options as given; None where they are not.
        saved: Settings of the checkpoint.
        path: The checkpoint.

    Raises:
        UserError: If a given value differs from the saved one.
    """
    adopted = {name: value for name, value in given.items() if value is not None}
    for full, value in saved.items():
        name = full.removeprefix(f"{group}.")
        if name == full or name in _NOT_ADOPTED:
            continue
        if name not in adopted:
            adopted[name] = value
        elif describe(adopted[name]) != value:
            raise UserError(
                f"received {adopted[name]!r} for {path}; expected {value!r}, as saved",
                argument="seed" if name == "seed" else full,
            )
    return adopted


def _data_settings(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a method's data by names such as ``data.held_out``, as JSON values."""
    sources: list[Any] = [RowsDataModule]
    if method != "flow":
        sources = [TextDataModule, make_examples]
    settings = {}
    for source in sources:
        for name, parameter in inspect.signature(source).parameters.items():
            is_option = parameter.kind is parameter.KEYWORD_ONLY
            if is_option and name not in _SET_BY_RUN:
                value = given.get(name, parameter.default)
                settings[f"data.{name}"] = describe(value)
    return settings


def _named(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a run that may have no effect, None where they are not given."""
    names = ("corpus", "nli", "column", "max_sentences", "tasks", "senteval", "cache")
    named = {name: arguments[name] for name in names}
    default = inspect.signature(Run).parameters["baseline"].default
    if arguments["baseline"] not in (default, "none"):
        named["baseline"] = arguments["baseline"]
    return named


def _given(
    encoder: EncoderOptions, groups: Mapping[str, Any], **named: Any
) -> dict[str, Any]:
    """Options by their full names, None where they are not given."""
    given = dict(named)
    for field in fields(encoder):
        value = getattr(encoder, field.name)
        given[f"encoder.{field.name}"] = None if value == field.default else value
    for group, options in groups.items():
        for name, value in (options or {}).items():
            given[f"{group}.{name}"] = value
    return given


def _supervised(fitted: AnyMap) -> bool:
    return any(step.supervised for step in steps_of(fitted))
