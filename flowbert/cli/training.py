"""fit, validate, test and predict: LightningCLI with the groups encoder, data, model and trainer."""

import os
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI

from flowbert.atomic import written_atomically
from flowbert.callbacks import STSEvaluation, WhiteningBaseline
from flowbert.cli.loggers import check_log_to, make_loggers
from flowbert.cli.methods import METHODS, chosen_method
from flowbert.cli.options import add_encoder_options, setting_of
from flowbert.cli.parser import TrainingParser
from flowbert.cli.run_dir import RESULTS, resolve_run_dir
from flowbert.data.base import CorpusDataModule
from flowbert.embedder import save_encoder
from flowbert.errors import UserError
from flowbert.evaluation import fingerprint, rows_of, write_results
from flowbert.modules import EmbeddingModule
from flowbert.quiet import quiet_lightning
from flowbert.report import print_table

_DESCRIPTIONS = {
    "fit": "Train a method on a corpus, evaluate it beside the baselines, and save everything in a run folder.",
    "validate": "Likelihood and STS figures on the development split, from a checkpoint (--ckpt_path).",
    "test": "Likelihood and STS figures on the test split, from a checkpoint (--ckpt_path).",
    "predict": "Embed the corpus, or the text file --data.predict, with a checkpoint (--ckpt_path) -> predictions.npy.",
}
_TRAINER_DEFAULTS = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
}


class TrainingCLI(LightningCLI):
    """LightningCLI whose run folder, encoder, baselines and report are flowbert's."""

    model: EmbeddingModule
    datamodule: CorpusDataModule
    trainer: Any  # a Trainer, many of whose attributes its connectors set out of mypy's sight

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._method = METHODS[chosen_method(argv)]
        super().__init__(
            self._method.module,
            self._method.data,
            trainer_defaults=_TRAINER_DEFAULTS,
            seed_everything_default=0,
            parser_class=TrainingParser,
            parser_kwargs={
                name: {"description": text, "usage": f"train.py {name} --config FILE [options]"}
                for name, text in _DESCRIPTIONS.items()
            },
            save_config_kwargs={"overwrite": True},
            args=argv,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,  # checkpoints hold plain hyper-parameters only
        )

    # --------------------------------------------------------------- parsing

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Put what users set most first: run, encoder, data, model; Lightning's long trainer group comes last."""
        run = parser.add_argument_group("The run")
        run.add_argument(
            "--method", type=str, default="flow", help="; ".join(f"{n}: {m.summary}" for n, m in METHODS.items())
        )
        run.add_argument("--run_dir", type=str | None, default=None, help="Folder for everything the run writes.")
        run.add_argument(
            "--log_to", type=list[str], default=[], help="Beside metrics.csv: wandb, wandb-offline, tensorboard."
        )
        add_encoder_options(parser)
        parser.add_lightning_class_args(self._method.data, "data")
        parser.add_lightning_class_args(self._method.module, "model")
        if self._method.frozen_encoder:
            parser.add_lightning_class_args(WhiteningBaseline, "whitening")
        parser.add_lightning_class_args(self.trainer_class, "trainer")
        parser.set_defaults({"trainer." + name: value for name, value in self.trainer_defaults.items()})

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """One seed for everything."""
        for group in ("data", "model"):
            parser.link_arguments("seed_everything", f"{group}.seed")

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse exactly what was given; sys.argv plays no part."""
        self.config = parser.parse_args(self._argv)

    def _parse_ckpt_path(self) -> None:
        """Keep the command line: a checkpoint's hyper-parameters must not silently override it."""

    # --------------------------------------------------------- instantiation

    def before_instantiate_classes(self) -> None:
        """Find the user's mistakes before anything expensive runs or is written."""
        config = self.config[self.subcommand]
        check_log_to(config.log_to)
        if config.get("ckpt_path") is None and self.subcommand != "fit":
            raise UserError(
                f"--ckpt_path: received nothing; allowed: a checkpoint of a fit run, to {self.subcommand} it"
            )
        config_files = [str(path) for path in config.get("config") or []]
        self.run_dir = resolve_run_dir(config.run_dir, config_files[-1] if config_files else None)
        config.run_dir = str(self.run_dir)

    def _check_checkpoint(self, path: str | None) -> None:
        if path is None and self.subcommand != "fit":
            raise UserError(
                f"--ckpt_path: received nothing; allowed: a checkpoint of a fit run, to {self.subcommand} it"
            )
        if path is not None and not Path(path).is_file():
            raise UserError(
                f"--ckpt_path: no file {path}; allowed: a checkpoint, such as RUN_DIR/checkpoints/last.ckpt"
            )

    def instantiate_classes(self) -> None:
        """Build data, model and trainer, and connect the encoder to both."""
        super().instantiate_classes()
        self.datamodule.load()
        encoder = self.model.load_encoder(self._get(self.config_init, "encoder"), self.datamodule)
        self.datamodule.connect(encoder)
        self.model.connect(encoder)
        checkpoint = self._get(self.config, "ckpt_path")
        if checkpoint is not None:
            check_checkpoint(checkpoint, self.model)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Trainer that writes into the run folder only."""
        config = self._get(self.config_init, "trainer")
        if config.get("logger") is None and not config.get("fast_dev_run"):
            kwargs["logger"] = make_loggers(self._get(self.config_init, "log_to"), self.run_dir)
        self.evaluation = STSEvaluation()
        extra = [self.evaluation] if self.subcommand == "predict" else [self.evaluation, self._checkpoints()]
        config["callbacks"] = [*(config.get("callbacks") or []), *extra]
        kwargs["default_root_dir"] = str(self.run_dir)
        try:
            return super().instantiate_trainer(**kwargs)
        except (MisconfigurationException, ImportError, ValueError) as error:
            raise UserError(f"--trainer: {error}") from error

    def _checkpoints(self) -> ModelCheckpoint:
        """A frozen encoder's method keeps its last state, as no label may choose; a trained encoder its best on dev."""
        self.datamodule.load()
        folder, name, (task, *_) = self.run_dir / "checkpoints", "{epoch}-{step}", self.datamodule.tasks
        if self._method.frozen_encoder or "dev" not in task.splits:
            return ModelCheckpoint(folder, name, save_last=True, save_on_train_epoch_end=True)
        (method,) = self.model.transforms()
        monitor = f"{method}/{task.name}/dev/spearman_all"
        return ModelCheckpoint(folder, name, monitor, mode="max", save_last=True, save_on_train_epoch_end=False)

    # ---------------------------------------------------------------- report

    def after_fit(self) -> None:
        """Evaluate on the test split, save the fitted maps, print the table."""
        if self.trainer.fast_dev_run:
            return
        best = None if self._method.frozen_encoder else self.trainer.checkpoint_callback.best_model_path or None
        self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=best, verbose=False)
        if self.trainer.is_global_zero:
            self._save_fitted()
        self._report()

    def after_validate(self) -> None:
        """Print and save the figures of the development split."""
        self._report()

    def after_test(self) -> None:
        """Print and save the figures of the test split."""
        self._report()

    def predict(self, **kwargs: Any) -> None:
        """Write the embeddings in corpus order to predictions.npy."""
        batches = self.trainer.predict(**kwargs)
        path = self.run_dir / "predictions.npy"
        embeddings = torch.cat([batch for batch in batches or [] if isinstance(batch, torch.Tensor)]).numpy()
        with written_atomically(path) as temporary:
            np.save(temporary, embeddings)
        print(f"{embeddings.shape[0]} embeddings of size {embeddings.shape[1]} written to {path}")

    def _save_fitted(self) -> None:
        folder = self.run_dir / "model"
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_fitted(folder)
        if self._method.frozen_encoder:
            save_encoder(folder, self.model.encoder)
        for callback in self.trainer.callbacks:
            if isinstance(callback, WhiteningBaseline):
                callback.calibration.save(folder / "whitening.safetensors")

    def _report(self) -> None:
        if not self.trainer.is_global_zero or self.trainer.fast_dev_run:
            return
        seed = self._get(self.config, "seed_everything")
        setting = setting_of(self.model.encoder)
        rows = [
            row
            for found in self.evaluation.figures
            for row in rows_of(
                found.figures,
                method=found.method,
                corpus="none" if found.method == "raw" else self.datamodule.corpus_name,
                seed=seed if found.trained else None,
                **setting,
            )
        ]
        print_table(rows)
        self._dump_config()
        record = fingerprint(
            self.config_dump, corpus_hash=self.datamodule.corpus_digest, device=str(self.model.device), seed=seed
        )
        write_results(self.run_dir / RESULTS, rows, record)
        print(f"written to {self.run_dir}: " + ", ".join(sorted(os.listdir(self.run_dir))))


def check_checkpoint(path: str, module: EmbeddingModule) -> None:
    """Check a checkpoint before anything is encoded.

    Raises:
        UserError: If it is missing, not a checkpoint, or was fitted on another encoder.
    """
    if not Path(path).is_file():
        raise UserError(f"--ckpt_path: no file {path}; allowed: a checkpoint, such as RUN_DIR/checkpoints/last.ckpt")
    try:
        if not is_zipfile(path):
            raise UnpicklingError("not a zip archive")
        content = torch.load(path, map_location="cpu", weights_only=True)
        if "encoder_key" not in content:
            raise UnpicklingError("it names no encoder")
    except (UnpicklingError, RuntimeError, EOFError) as error:
        raise UserError(f"--ckpt_path: {path} is not a checkpoint of flowbert ({error})") from error
    module.on_load_checkpoint(content)


def train(argv: Sequence[str]) -> None:
    """Run fit, validate, test or predict.

    Raises:
        UserError: For every mistake in the options, files or checkpoint.
    """
    try:
        with quiet_lightning():
            TrainingCLI(list(argv))
    except MisconfigurationException as error:
        raise UserError(f"--trainer: {error}") from error
