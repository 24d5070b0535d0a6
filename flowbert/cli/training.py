"""fit, validate, test and predict: options with the groups encoder, data, model and trainer."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import yaml
from jsonargparse import Namespace, dict_to_namespace
from pytorch_lightning import Trainer, seed_everything
from pytorch_lightning.cli import SaveConfigCallback

from flowbert.callbacks import WhiteningBaseline
from flowbert.cli.methods import METHODS, TrainingMethod, chosen_method
from flowbert.cli.options import add_encoder_options, add_options
from flowbert.cli.parser import ToolParser
from flowbert.data.sts import SAMPLE
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.datamodules.vectors import VectorDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.loading import SAMPLE_PATH, find_checkpoint
from flowbert.errors import UserError
from flowbert.io.run_folder import RunFolder, run_folder_shared
from flowbert.modules import EmbeddingModule, MLMModule
from flowbert.notices import lightning_notices_filtered
from flowbert.progress import is_hidden
from flowbert.report.render import print_table
from flowbert.report.table import spearman_table
from flowbert.runs.checkpoints import SavedCheckpoint
from flowbert.runs.fit import TRAINER_DEFAULTS, Run
from flowbert.runs.vector_options import refuse_with_vectors
from flowbert.training.checkpoints import LastCheckpoint
from flowbert.training.limits import check_limits
from flowbert.vectors import VectorTable

_DESCRIPTIONS = {
    "fit": "Train a method on a corpus, evaluate it beside the baselines, and save everything in a run folder.",
    "validate": "Likelihood and STS figures on the development split, from a checkpoint (--ckpt_path).",
    "test": "Likelihood and STS figures on the test split, from a checkpoint (--ckpt_path).",
    "predict": "Embed the corpus, or the text file --data.predict, with a checkpoint (--ckpt_path) -> predictions.npy.",
}
_NO_SETTINGS = ("config", "run_dir", "log_to", "ckpt_path", "checkpoint")  # where and how it is written: not hashed
_GIVEN = {"encoder", "options", "seed", "dim"}  # arguments of module and data module that other options decide


def make_parser(command: str, method: TrainingMethod) -> ToolParser:
    """Parser of ``fit``, ``validate``, ``test`` or ``predict`` for a method.

    What users set most comes first: run, encoder, corpus, data, model; Lightning's long trainer group comes last.
    """
    parser = ToolParser(usage=f"train.py {command} --config FILE [options]", description=_DESCRIPTIONS[command])
    summaries = "; ".join(f"{name}: {found.summary}" for name, found in METHODS.items())
    parser.add_argument("--method", type=str, default="flow", help=summaries)
    parser.add_argument("--run_dir", type=str | None, default=None, help="Folder for everything the run writes.")
    parser.add_argument("--ckpt_path", type=str | None, default=None, help="Checkpoint to go on from, or to measure.")
    log_to = "Beside metrics.csv: wandb, wandb-offline, tensorboard."
    parser.add_argument("--log_to", type=list[str], default=[], help=log_to)
    add_options(parser, "seed", *sorted(method.data.uses), *(["vectors"] if _takes_vectors(command, method) else []))
    add_encoder_options(parser)
    for group, kind in (("data", method.data), ("model", method.module)):
        parser.add_class_arguments(kind, group, skip=_GIVEN, instantiate=False, fail_untyped=False)
    if "model.loss" in parser.get_defaults(skip_validation=True):
        parser.set_defaults({"model.loss": {"class_path": "flowbert.losses.info_nce.InfoNCE"}})
    if method.module.frozen_encoder:
        parser.add_class_arguments(WhiteningBaseline, "whitening")
        recommended = "Compare the recommended whitening (configs/recommended_whitening.yaml), too."
        parser.add_argument("--recommended", type=bool, default=False, help=recommended)
    parser.add_class_arguments(LastCheckpoint, "checkpoint", skip={"dirpath"})
    parser.add_class_arguments(Trainer, "trainer", instantiate=False, fail_untyped=False, sub_configs=True)
    parser.set_defaults({f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()})
    return parser


def _takes_vectors(command: str, method: TrainingMethod) -> bool:
    """Whether vectors may stand in the place of a frozen encoder; ``encode`` maps them, not ``predict``."""
    return method.module.frozen_encoder and command != "predict"


def train(argv: Sequence[str]) -> None:
    """Run fit, validate, test or predict.

    Raises:
        UserError: For every mistake in the options, files or checkpoint.
    """
    command, method = argv[0], METHODS[chosen_method(argv)]
    parser = make_parser(command, method)
    config = parser.parse_args(list(argv[1:]))
    check_limits(seed=config.seed)
    checkpoint = _checkpoint(command, config, method)
    with lightning_notices_filtered(), run_folder_shared():
        seed_everything(config.seed, workers=True)
        run = _build(parser, config, method, checkpoint)
        if command == "predict":
            embeddings = run.predict()
            if run.is_main_process:
                print(f"{len(embeddings)} embeddings of size {embeddings.shape[1]} written to {run.folder.predictions}")
            return
        if command == "fit":
            rows = run.fit(on_start=partial(_say_what_is_fitted_on, run))
        else:
            rows = run.measure("dev" if command == "validate" else "test")
    if run.is_main_process and run.folder.results.exists():
        if rows:
            print_table(spearman_table(rows))
            for line in run.said["verdicts"]:
                print(line)
        print(f"written to {run.folder.path}: " + ", ".join(sorted(os.listdir(run.folder.path))))


def _checkpoint(command: str, config: Namespace, method: TrainingMethod) -> SavedCheckpoint | None:
    if config.ckpt_path is None:
        if command != "fit":
            raise UserError(f"ckpt_path: received nothing; allowed: a checkpoint of a fit run, to {command} it")
        return None
    checkpoint = SavedCheckpoint.read(config.ckpt_path)
    made_by = checkpoint.content.get("module")
    if made_by != method.module.__name__:
        raise UserError(f"ckpt_path: {config.ckpt_path} is of {made_by}; allowed: one of {method.module.__name__}")
    match_options(config, checkpoint, make_parser(command, method).get_defaults(), adopt=command != "fit")
    return checkpoint


def match_options(config: Namespace, checkpoint: SavedCheckpoint, defaults: Namespace, *, adopt: bool) -> None:
    """Make the options of the module agree with a checkpoint: a fit goes on as it began, a network is as it was saved.

    Args:
        config: The options; changed in place if ``adopt``.
        checkpoint: The checkpoint.
        defaults: What the options are where nothing is said.
        adopt: Whether an option left at its default takes the checkpoint's value (when nothing is trained).

    Raises:
        UserError: If an option has another value than in the checkpoint.
    """
    of_checkpoint = checkpoint.content.get("hyper_parameters", {})  # arguments of the module that wrote it
    of_model = vars(config.model) if "model" in config else ()  # a module may have no option
    for option in ("seed", *(f"model.{name}" for name in of_model)):
        name, received = option.removeprefix("model."), _plain(config[option])
        saved = of_checkpoint.get(name, received)
        if received == saved:
            continue
        if not adopt or received != _plain(defaults[option]):
            raise UserError(f"{name}: received {received!r}; allowed with the checkpoint {checkpoint.path}: {saved!r}")
        config[option] = dict_to_namespace(saved) if isinstance(saved, dict) else saved


def _plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, Namespace) else value


def _build(parser: ToolParser, config: Namespace, method: TrainingMethod, checkpoint: SavedCheckpoint | None) -> Run:
    """Find the user's mistakes before anything expensive runs or is written, cheap ones first."""
    made = parser.instantiate(config)
    if config.get("vectors") is None:
        options = CorpusOptions(**{name: config[name] for name in method.data.uses if config[name] is not None})
        data = method.data(options=options, seed=config.seed, **made.data)
    else:
        data = _vector_data(made)
    module = _module(method, made, data, checkpoint)
    folder = RunFolder.choose(config.run_dir, (config.config or [None])[-1])
    config.run_dir = None  # so that the saved config.yaml can be used again
    settings = {name: value for name, value in yaml.safe_load(parser.dump(config)).items() if name not in _NO_SETTINGS}
    trainer = dict(made.trainer)
    saver: Any = parser  # any parser of jsonargparse will do
    trainer["callbacks"] = [*(trainer["callbacks"] or []), SaveConfigCallback(saver, config, overwrite=True)]
    return Run(
        module,
        data,
        folder,
        checkpoint=checkpoint,
        log_to=config.log_to,
        whitening=made.get("whitening"),
        last=made.checkpoint,
        recommended=config.get("recommended", False),
        settings=settings,
        **trainer,
    )


def _vector_data(made: Namespace) -> VectorDataModule:
    given = dict(made.data)
    without = ("corpus", "nli", "senteval", "store_dir", "recommended")
    refuse_with_vectors(encoder=made.encoder.as_dict(), **{name: made[name] for name in without})
    refuse_with_vectors(**{name: given.pop(name) for name in ("store", "predict")})
    table = VectorTable.open(made.vectors, made.column)
    return VectorDataModule(table, made.tasks or (), max_sentences=made.max_sentences, seed=made.seed, **given)


def _module(
    method: TrainingMethod, made: Namespace, data: CorpusDataModule, checkpoint: SavedCheckpoint | None
) -> EmbeddingModule:
    """The module with its encoder: loaded, or made from the corpus; if it was made before, it is in the checkpoint."""
    kind: Any = method.module
    options: Mapping[str, Any] = {**made.get("model", {}), "seed": made.seed}
    module: EmbeddingModule = kind(**options)  # a typo shows before anything is read
    module.check_data(data)
    encoder: SentenceEncoder | VectorTable | None
    if isinstance(module, MLMModule) and module.hparams["scratch"]:
        data.load()
        if made.encoder.prompt:
            raise UserError(f"prompt: received {made.encoder.prompt!r}; allowed for an encoder from scratch: none")
        used = {name: made.encoder[name] for name in ("layers", "pooling", "max_length")}
        encoder = None if checkpoint else module.make_encoder(data.corpus_sentences(), **used)
    elif isinstance(data, VectorDataModule):
        encoder = data.table
    else:
        find_checkpoint(made.encoder.path, made.encoder.revision)
        data.load()
        encoder = SentenceEncoder.from_pretrained(**made.encoder, frozen=method.module.frozen_encoder)
    module = kind(encoder=encoder, **options)
    if checkpoint is not None:
        module.on_load_checkpoint(checkpoint.content)
    return module


def _say_what_is_fitted_on(run: Run) -> None:
    if not run.is_main_process:
        return
    tasks = [task.name for task in run.datamodule.tasks]
    measured = f"evaluating on {', '.join(tasks)}" if tasks else "no tasks: nothing is evaluated, the maps are saved"
    if not is_hidden():
        print(f"fitting on {run.datamodule.summary()}; {measured}", file=sys.stderr)
    if SAMPLE in tasks and run.module.encoder.path != SAMPLE_PATH:
        print(f"note: {SAMPLE} is generated text; --tasks and --senteval name real tasks", file=sys.stderr)
