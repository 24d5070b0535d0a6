"""fit, validate, test and predict: LightningCLI with the groups encoder, data, model and trainer."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jsonargparse import Namespace
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Trainer
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI

from flowbert.callbacks import STSEvaluation, WhiteningBaseline
from flowbert.cli.checkpoints import earlier_metrics, match_options, read_checkpoint
from flowbert.cli.loggers import check_log_to, make_loggers
from flowbert.cli.methods import METHODS, chosen_method
from flowbert.cli.options import add_encoder_options, setting_of
from flowbert.cli.parser import CONFIG_HELP, TrainingParser
from flowbert.data.sts import SAMPLE
from flowbert.datamodules.base import CorpusDataModule
from flowbert.encoders.cpu.allocation import freed_memory_kept
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import UserError
from flowbert.evaluation import fingerprint, rows_of, write_results
from flowbert.io.atomic import written_atomically
from flowbert.io.run_folder import RunFolder, run_folder_shared
from flowbert.methods.embedder import save_encoder
from flowbert.modules import EmbeddingModule
from flowbert.notices import quiet_lightning
from flowbert.report import print_table
from flowbert.training import AtomicCheckpointIO, BestCheckpoint, LastCheckpoint

_DESCRIPTIONS = {
    "fit": "Train a method on a corpus, evaluate it beside the baselines, and save everything in a run folder.",
    "validate": "Likelihood and STS figures on the development split, from a checkpoint (--ckpt_path).",
    "test": "Likelihood and STS figures on the test split, from a checkpoint (--ckpt_path).",
    "predict": "Embed the corpus, or the text file --data.predict, with a checkpoint (--ckpt_path) -> predictions.npy.",
}
# What the config hash covers: what was done, not where and how it was written.
_SETTINGS = ("seed_everything", "method", "encoder", "data", "model", "whitening", "trainer")
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
        for action in parser._actions:
            if action.dest == "config":
                action.help = CONFIG_HELP
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
        parser.add_class_arguments(LastCheckpoint, "checkpoint", skip={"dirpath"})
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
        self._check_trainer_options(config.trainer)
        path = config.get("ckpt_path")
        if path is None and self.subcommand != "fit":
            raise UserError(
                f"--ckpt_path: received nothing; allowed: a checkpoint of a fit run, to {self.subcommand} it"
            )
        self._checkpoint = {} if path is None else read_checkpoint(path)
        resumed = path is not None and self.subcommand == "fit"
        self._earlier = earlier_metrics(path, self._checkpoint) if resumed else None
        match_options(config.model, self._checkpoint, self._method.module, path, adopt=self.subcommand != "fit")
        config_files = [str(file) for file in config.get("config") or []]
        self.run_dir = RunFolder.choose(config.run_dir, config_files[-1] if config_files else None).path
        config.run_dir = None  # so that the saved config.yaml can be used again

    def _check_trainer_options(self, options: Namespace) -> None:
        if self.subcommand == "fit" and 0 in (options.max_epochs, options.max_steps, options.limit_train_batches):
            raise UserError(
                "--trainer.max_epochs, max_steps, limit_train_batches: received 0, nothing to train; allowed: above 0"
            )
        if not self._method.frozen_encoder and options.precision in ("bf16-true", "16-true"):
            raise UserError(
                f"--trainer.precision: received {options.precision}; allowed when the encoder is trained: 32-true, "
                "bf16-mixed, 16-mixed (weights and losses stay in float32)"
            )
        if isinstance(options.logger, bool):
            raise UserError("--trainer.logger: received a switch; allowed: --log_to; metrics.csv is always written")

    def _set_seed(self) -> None:
        seed = self._get(self.config, "seed_everything")
        if isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise UserError(f"--seed_everything: received {seed}; allowed: a whole number from 0 to 4294967295")
        super()._set_seed()

    def instantiate_classes(self) -> None:
        """Build data and model, connect the encoder to both, and only then the trainer and what it writes."""
        self.config_init = self.parser.instantiate_classes(self.config)
        self.datamodule, self.model = self._get(self.config_init, "data"), self._get(self.config_init, "model")
        self.model.check_data(self.datamodule)
        # A new vocabulary is in its checkpoint alone: the encoder need not be made again from the corpus.
        made = "tokenizer" in self._checkpoint
        if not made:
            self.model.check_encoder(self._get(self.config_init, "encoder"))
        self.datamodule.load()
        self._check_corpus()
        if made:
            self.model.on_load_checkpoint(self._checkpoint)
            encoder = self.model.encoder
        else:
            encoder = self.model.load_encoder(self._get(self.config_init, "encoder"), self.datamodule)
        self.datamodule.connect(encoder)
        self.model.connect(encoder)
        if self._checkpoint:
            self.model.on_load_checkpoint(self._checkpoint)
        if self._method.frozen_encoder:
            self._get(self.config_init, "whitening").check_dim(encoder.dim)
        self.trainer = self.instantiate_trainer()
        self._say_what_is_fitted_on()
        if self.subcommand == "predict" and self.trainer.world_size > 1:
            raise UserError(f"--trainer.devices: received {self.trainer.world_size}; allowed for predict: 1")

    def _check_corpus(self) -> None:
        """A run goes on with what it began with: its maps and its rows belong to one corpus."""
        saved = self._checkpoint.get("corpus")
        if self.subcommand != "fit" or saved is None:
            return
        here = self.datamodule.describe_corpus()
        if any(saved[name] != here[name] for name in ("digest", "fitted")):
            raise UserError(
                f"--ckpt_path: the checkpoint was fitted on {saved['fitted']} of {saved['name']}, this run on "
                f"{here['fitted']} of {here['name']}; allowed: the same sentences"
            )

    def _say_what_is_fitted_on(self) -> None:
        if self.subcommand != "fit" or "LOCAL_RANK" in os.environ:
            return
        tasks = ", ".join(task.name for task in self.datamodule.tasks)
        print(f"fitting on {self.datamodule.summary()}; evaluating on {tasks}", file=sys.stderr)
        if SAMPLE in tasks and self._get(self.config, "encoder").path != SAMPLE_PATH:
            print(f"note: {SAMPLE} is generated text; --data.task and --data.senteval name real tasks", file=sys.stderr)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Trainer that writes into the run folder only."""
        config = self._get(self.config_init, "trainer")
        if not config.get("fast_dev_run"):
            given = config.get("logger") or []
            own = make_loggers(self._get(self.config_init, "log_to"), self.run_dir, self._earlier)
            kwargs["logger"] = [*own, *(given if isinstance(given, list) else [given])]
        self.evaluation, self.best = STSEvaluation(), self._best_checkpoint()
        last = self._get(self.config_init, "checkpoint")
        last.dirpath = self.run_dir / "checkpoints"
        own_callbacks = [self.evaluation, *([] if self.best is None else [self.best]), last]
        config["callbacks"] = [*(config.get("callbacks") or []), *own_callbacks]
        config["plugins"] = [*_as_list(config.get("plugins")), AtomicCheckpointIO()]
        kwargs["default_root_dir"] = str(self.run_dir)
        try:
            return super().instantiate_trainer(**kwargs)
        except (MisconfigurationException, ImportError, ValueError) as error:
            raise UserError(f"--trainer: {error}") from error

    def _best_checkpoint(self) -> BestCheckpoint | None:
        """A trained encoder keeps its best on dev; a frozen encoder's method its last state: no label may choose."""
        task = self.datamodule.tasks[0]
        if self._method.frozen_encoder or "dev" not in task.splits:
            return None
        (method,) = self.model.transforms()
        return BestCheckpoint(self.run_dir / "checkpoints", f"{method}/{task.name}/dev/spearman_all")

    # ---------------------------------------------------------------- report

    def after_fit(self) -> None:
        """Evaluate on the test split, save the fitted maps, print the table."""
        if self.trainer.fast_dev_run:
            return
        best = None if self.best is None else self.best.best_model_path or None
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
        # Without a fit of its own, a run reports what the checkpoint was fitted on.
        saved = self._checkpoint if self.subcommand != "fit" else {}
        corpus = saved.get("corpus") or self.datamodule.describe_corpus()
        seed = saved.get("hyper_parameters", {}).get("seed", self._get(self.config, "seed_everything"))
        rows = [
            row
            for found in self.evaluation.figures
            for row in rows_of(
                found.figures.measured,
                method=found.method,
                corpus="none" if found.method == "raw" else corpus["name"],
                fitted=0 if found.method == "raw" else corpus["fitted"],
                seed=seed if found.trained else None,
                **setting_of(self.model.encoder),
            )
        ]
        print_table(rows)
        self._dump_config()
        settings = {name: value for name, value in self.config_dump.items() if name in _SETTINGS}
        device = str(self.model.device)
        write_results(
            RunFolder(self.run_dir).results,
            rows,
            fingerprint(settings, corpus_hash=corpus["digest"], device=device, seed=seed),
        )
        print(f"written to {self.run_dir}: " + ", ".join(sorted(os.listdir(self.run_dir))))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def train(argv: Sequence[str]) -> None:
    """Run fit, validate, test or predict.

    Raises:
        UserError: For every mistake in the options, files or checkpoint.
    """
    try:
        with quiet_lightning(), run_folder_shared(), freed_memory_kept():
            TrainingCLI(list(argv))
    except MisconfigurationException as error:
        raise UserError(f"--trainer: {error}") from error
    except SystemExit as stop:
        if stop.code == 1:  # Lightning's end of a training that Ctrl-C has stopped
            raise KeyboardInterrupt from None
        raise
