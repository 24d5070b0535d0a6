"""A training run from its data to its folder: trained, evaluated beside the baselines, everything saved."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from torch import Tensor

from flowbert.advice.cls_token import warn_of_cls
from flowbert.analysis.found import Analysis
from flowbert.callbacks import StepLog, STSEvaluation, WhiteningBaseline
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.batches import rows_in_order
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import encoder_columns
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row, fingerprint, write_results
from flowbert.evaluation.sample_vectors import drawn_sentences
from flowbert.io.atomic import written_atomically
from flowbert.io.run_folder import RunFolder
from flowbert.methods.embedder import save_encoder
from flowbert.modules import EmbeddingModule
from flowbert.modules.base import Transform
from flowbert.processes import exchanged, started
from flowbert.runs.checkpoints import SavedCheckpoint
from flowbert.runs.fit_figures import intervals_of, joined, record_of, rows_of_fit
from flowbert.runs.loggers import check_log_to, log_embeddings, log_results, make_loggers
from flowbert.runs.page_analysis import analysis_of_fit
from flowbert.runs.pages import write_page
from flowbert.runs.recommended import recommended_comparison
from flowbert.training.checkpoints import AtomicCheckpointIO, BestCheckpoint, LastCheckpoint
from flowbert.training.lightning_adapter import lightning_as_ours
from flowbert.training.progress_bar import TrainingProgress
from flowbert.vectors import Ranges

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
}
_PROJECTED = 1000  # sentences in TensorBoard's projector
_HALF_WEIGHTS = ("bf16-true", "16-true")


class Run:
    """A module, its data and a run folder under one trainer.

    Args:
        module: What is trained, or a module of the checkpoint's kind.
        datamodule: Its data; read here if they are not yet.
        run: The run folder.
        checkpoint: Where a fit goes on, or what is measured; none for a new fit.
        log_to: Where figures go beside ``metrics.csv``: ``wandb``, ``wandb-offline``, ``tensorboard``.
        whitening: The baseline beside a frozen encoder's method; default: plain whitening.
        last: When ``last.ckpt`` is written; default: after every epoch and every ten minutes.
        recommended: Whether a fit compares the recommended map, too, see :mod:`flowbert.runs.recommended`.
        settings: What the run was asked to do, as JSON values, for the hash in its results.
        **trainer: Arguments of Lightning's Trainer, over :data:`TRAINER_DEFAULTS`.

    Attributes:
        said: What follows from the figures, as JSON values: verdicts, intervals of averages; empty before.

    Raises:
        UserError: If something does not fit together; nothing has been encoded or written by then.
    """

    def __init__(
        self,
        module: EmbeddingModule,
        datamodule: CorpusDataModule,
        run: RunFolder,
        *,
        checkpoint: SavedCheckpoint | None = None,
        log_to: Sequence[str] = (),
        whitening: WhiteningBaseline | None = None,
        last: LastCheckpoint | None = None,
        recommended: bool = False,
        settings: Mapping[str, Any] | None = None,
        **trainer: Any,
    ) -> None:
        check_log_to(log_to)
        self.module, self.datamodule, self.folder, self.checkpoint = module, datamodule, run, checkpoint
        self.settings = dict(module.hparams) if settings is None else settings
        self.evaluation = STSEvaluation()
        self._log_to, self._last = log_to, LastCheckpoint() if last is None else last
        self._recommended = recommended
        self._options = TRAINER_DEFAULTS | trainer
        self.said: dict[str, Any] = {}
        self._intervals = Intervals({}, ())
        module.check_data(datamodule)
        datamodule.load()
        if module.has_encoder and module.encoder.needs_counts:
            datamodule.counted(module.encoder)  # a mistake shows before anything is written
        self.whitening = WhiteningBaseline() if whitening is None and module.frozen_encoder else whitening
        if self.whitening is not None:
            self.whitening.calibration.output_dim(module.encoder.dim)  # there may be fewer than n_components
        self.best = self._best_checkpoint()
        self.is_main_process = "LOCAL_RANK" not in os.environ  # known once there is a trainer, as its loggers are
        self._loggers: list[Logger] = []

    # -------------------------------------------------------------- commands

    def fit(self, on_start: Callable[[], None] = lambda: None) -> list[Row]:
        """Train, evaluate on the test split, save the fitted maps and the figures.

        Args:
            on_start: Called when all options are known to be right, before anything is encoded.

        Returns:
            Rows of the results; none with ``fast_dev_run``, and none in other processes than the first.
        """
        self._check_fit()
        try:
            return self._fit(on_start)
        except BaseException:
            if self.is_main_process and self.folder.metrics.is_file() and not self.folder.results.is_file():
                write_page(self.folder.path)
            raise

    def _fit(self, on_start: Callable[[], None]) -> list[Row]:
        earlier = [] if self.checkpoint is None else self.checkpoint.earlier_metrics()
        with lightning_as_ours():
            trainer = self._trainer(earlier)
            on_start()
            if self.module.frozen_encoder and self.checkpoint is None and trainer.is_global_zero:
                device, seed = trainer.strategy.root_device, self.module.hparams["seed"]
                warn_of_cls(self.module.encoder, self.datamodule.corpus_sentences, seed, device)
            if self.module.trained:
                trainer.fit(self.module, datamodule=self.datamodule, ckpt_path=self._path(), weights_only=True)
            if trainer.fast_dev_run:
                return []
            best = None if self.best is None else self.best.best_model_path or None
            trainer.test(self.module, datamodule=self.datamodule, ckpt_path=best, weights_only=True, verbose=False)
        if not trainer.is_global_zero:
            return []
        self._save_fitted()
        corpus = self.datamodule.describe_corpus()
        rows = self._report(trainer, corpus)
        if self._recommended:  # what the fit gave is on disk by now
            data, seed = self.datamodule, self.module.hparams["seed"]
            other = recommended_comparison(self.module.encoder, data.options, data.corpus_sentences(), seed)
            rows += other.rows
            self.said = record_of(rows, joined(self._intervals, other))
            self._write(rows, corpus)
        write_page(self.folder.path, self._analysis)
        self._log_end(rows)
        return rows

    def measure(self, split: str = "test") -> list[Row]:
        """Likelihood and STS figures of the checkpoint on the split ``dev`` or ``test``."""
        with lightning_as_ours():
            trainer = self._trainer()
            command: Callable[..., Any] = trainer.test if split == "test" else trainer.validate
            command(self.module, datamodule=self.datamodule, ckpt_path=self._path(), weights_only=True)
        # Without a fit of its own, a run reports what the checkpoint was fitted on.
        saved = {} if self.checkpoint is None else self.checkpoint.content
        rows = self._report(trainer, saved.get("corpus") or self.datamodule.describe_corpus())
        if rows:
            write_page(self.folder.path)
        return rows

    def predict(self) -> npt.NDArray[np.float32]:
        """Embed the data module's sentences with the checkpoint, ``(N, D)``, and write ``predictions.npy``."""
        with lightning_as_ours():
            trainer = self._trainer()
            batches: Any = trainer.predict(
                self.module, datamodule=self.datamodule, ckpt_path=self._path(), weights_only=True
            )
            shares = list(exchanged(trainer.strategy, list(batches)))
        embeddings: npt.NDArray[np.float32] = rows_in_order(shares, len(self.datamodule.predict_sentences())).numpy()
        if self.is_main_process:
            with written_atomically(self.folder.predictions) as temporary:
                np.save(temporary, embeddings)
        return embeddings

    def _path(self) -> Path | None:
        return None if self.checkpoint is None else self.checkpoint.path

    # --------------------------------------------------------------- trainer

    def _check_fit(self) -> None:
        """Find what speaks against a fit: nothing to train, half precision, or another corpus than the checkpoint's.

        Raises:
            UserError: If there is something.
        """
        options = self._options
        for name in ("max_epochs", "max_steps", "limit_train_batches"):
            if options.get(name) == 0:
                raise UserError(f"{name}: received 0, nothing to train; allowed: above 0")
        if not self.module.frozen_encoder and options.get("precision") in _HALF_WEIGHTS:
            raise UserError(
                f"precision: received {options['precision']}; allowed when the encoder is trained: 32-true, "
                "bf16-mixed, 16-mixed (weights and losses stay in float32)"
            )
        if self.checkpoint is not None and "corpus" in self.checkpoint.content:
            self.datamodule.check_corpus(self.checkpoint.content["corpus"])

    def _best_checkpoint(self) -> BestCheckpoint | None:
        """A trained encoder keeps its best on dev; a frozen encoder's method its last state: no label may choose."""
        if self.module.frozen_encoder or "dev" not in (task := self.datamodule.tasks[0]).splits:
            return None
        (method,) = self.module.transforms()
        return BestCheckpoint(self.folder.checkpoints, f"{method}/{task.name}/dev/spearman_all")

    def _trainer(self, earlier: Sequence[dict[str, str]] = ()) -> Any:
        """A Trainer that writes into the run folder only."""
        options = dict(self._options)
        if isinstance(options.get("logger"), bool):
            raise UserError("logger: received a switch; allowed: log_to; metrics.csv is always written")
        if not options.get("fast_dev_run"):
            self._loggers = make_loggers(self._log_to, self.folder, earlier)
            options["logger"] = [*self._loggers, *_as_list(options.get("logger"))]
        self._last.dirpath = self.folder.checkpoints
        given, bar = _as_list(options.get("callbacks")), options.get("enable_progress_bar")
        own: list[Callback | None] = [self.whitening, self.evaluation, StepLog(), self.best, self._last]
        if bar is not False and not any(isinstance(callback, ProgressBar) for callback in given):
            own.append(TrainingProgress(bar))
        options["callbacks"] = [*given, *(callback for callback in own if callback)]
        options["plugins"] = [*_as_list(options.get("plugins")), AtomicCheckpointIO()]
        try:
            trainer = Trainer(**options | {"default_root_dir": str(self.folder.path)})
        except (ImportError, ValueError) as error:
            raise UserError(f"trainer: {error}") from error
        asked = started().world_size
        if trainer.world_size < asked:
            raise UserError(
                f"devices: received {trainer.world_size} for {asked} processes; allowed under torchrun: devices times "
                f"num_nodes is {asked}"
            )
        self.is_main_process = trainer.is_global_zero
        return trainer

    # ---------------------------------------------------------------- report

    def _save_fitted(self) -> None:
        self.folder.model.mkdir(parents=True, exist_ok=True)
        self.module.save_fitted(self.folder.model)
        if self.module.frozen_encoder:
            save_encoder(self.folder.model, self.module.encoder)
        if self.whitening is not None:
            self.whitening.calibration.save(self.folder.fitted_map(self.whitening.name))
        if isinstance(self.datamodule, EmbeddingDataModule):
            # By these ranges int8 vectors are scaled.
            sample = self.datamodule.scale_sample()
            for name, (transform, flaw) in self._maps().items():
                if flaw is None:
                    Ranges.of([transform(sample).cpu().numpy()]).save(self.folder.scale(name))

    def _maps(self) -> dict[str, tuple[Transform, str | None]]:
        """Raw embeddings, the baseline's map, and those of the method, each with the reason why it means nothing."""
        maps: dict[str, tuple[Transform, str | None]] = {"raw": (lambda rows: rows, None)}
        if self.whitening is not None:
            maps[self.whitening.name] = self.whitening.transform, self.whitening.flaw
        return maps | {name: (transform, self.module.flaw) for name, transform in self.module.transforms().items()}

    def _log_end(self, rows: Sequence[Row]) -> None:
        """Give the loggers what there is at the end only: result files, the model, a sample of embeddings."""
        log_results(self._loggers, self.folder, rows)
        for logger in self._loggers:
            if isinstance(logger, TensorBoardLogger) and self.datamodule.tasks:
                task = self.datamodule.tasks[0]
                sentences = list(dict.fromkeys(task.sentences(["test"])))[:_PROJECTED]
                log_embeddings(logger, sentences, self._mapped(sentences))

    def _analysis(self) -> Analysis | None:
        """What the maps did to sentences of the first task, those that mean something."""
        if not self.datamodule.tasks:
            return None
        task = self.datamodule.tasks[0]
        sentences = drawn_sentences(task.sentences(["test"]), self.module.hparams["seed"])
        maps = self._maps()
        vectors = {name: rows for name, rows in self._mapped(sentences) if maps[name][1] is None}
        setting = {**encoder_columns(self.module.encoder), "measured": f"{task.name} test"}
        return analysis_of_fit(self.module, self.datamodule, sentences, vectors, self.evaluation.figures, setting)

    def _mapped(self, sentences: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        """Embeddings before any training, those of the baseline, and those of the method: name, ``(N, k)``."""
        start, now = self.module.start_embeddings(sentences), self.module.sentence_embeddings(sentences)
        for name, (transform, _) in self._maps().items():
            yield name, transform(now if name in self.module.transforms() else start)

    def _report(self, trainer: Any, corpus: Mapping[str, Any]) -> list[Row]:
        if trainer.fast_dev_run or not trainer.is_global_zero:
            return []
        figures, seed = self.evaluation.figures, self.module.hparams["seed"]
        self._intervals = intervals_of(self.datamodule.tasks, figures)
        rows = self._intervals.rows(rows_of_fit(figures, corpus, seed, encoder_columns(self.module.encoder)))
        self.said = record_of(rows, self._intervals)
        self._write(rows, corpus)
        return rows

    def _write(self, rows: Sequence[Row], corpus: Mapping[str, Any]) -> None:
        device, seed = str(self.module.device), self.module.hparams["seed"]
        record = fingerprint(self.settings, corpus_hash=corpus["digest"], device=device, seed=seed)
        write_results(self.folder.results, rows, record | self.said)


def fit(
    module: EmbeddingModule,
    datamodule: CorpusDataModule,
    run_dir: str | Path | None = None,
    *,
    ckpt_path: str | Path | None = None,
    **options: Any,
) -> list[Row]:
    """Train a module, evaluate it beside its baselines on the test split, and save everything in a run folder.

    Args:
        module: What is trained.
        datamodule: Its data.
        run_dir: The run folder, new or of a run that was interrupted; default: ``runs/run/<time>``.
        ckpt_path: The checkpoint of a run to go on with.
        **options: Further arguments of :class:`Run`, Lightning's Trainer's among them: ``max_epochs``, ``devices``.

    Returns:
        Rows of ``results.json``: raw embeddings, baselines, the method.

    Raises:
        UserError: For a mistake in an option, a file or the checkpoint.

    Example:
        >>> import tempfile
        >>> from flowbert import SentenceEncoder
        >>> from flowbert.datamodules.embedding import EmbeddingDataModule
        >>> from flowbert.datamodules.options import CorpusOptions
        >>> from flowbert.modules import FlowModule
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
        >>> options = CorpusOptions(tasks="SAMPLE", max_sentences=900)
        >>> data = EmbeddingDataModule(encoder, options, store="memory")
        >>> quick = {"max_epochs": 1, "enable_progress_bar": False, "accelerator": "cpu"}
        >>> rows = fit(FlowModule(encoder=encoder), data, tempfile.mkdtemp(), **quick)
        >>> sorted({row.method for row in rows})
        ['flow', 'raw', 'whitening']
    """
    checkpoint = None if ckpt_path is None else SavedCheckpoint.read(ckpt_path)
    return Run(module, datamodule, RunFolder.choose(run_dir), checkpoint=checkpoint, **options).fit()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
