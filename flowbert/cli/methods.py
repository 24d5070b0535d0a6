"""What ``fit --method NAME`` trains: the LightningModule and the data module that belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.mlm import MLMDataModule
from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.errors import UserError, choices
from flowbert.modules import EmbeddingModule, FlowModule, MLMModule, SBERTModule, SimCSEModule


@dataclass(frozen=True)
class TrainingMethod:
    """A trainable method: its module, its data, and one line for the help."""

    module: type[EmbeddingModule]
    data: type[CorpusDataModule]
    summary: str

    @property
    def frozen_encoder(self) -> bool:
        """Whether the encoder stays as it is, so that closed-form baselines belong beside the method."""
        return self.module.frozen_encoder


_GROUPS = ("encoder", "data", "model", "whitening", "trainer")
METHODS = {
    "flow": TrainingMethod(FlowModule, EmbeddingDataModule, "BERT-flow: a Glow-style flow on frozen embeddings"),
    "mlm": TrainingMethod(MLMModule, MLMDataModule, "masked language modelling, continued or from scratch"),
    "simcse": TrainingMethod(SimCSEModule, ContrastiveDataModule, "SimCSE, without labels or from NLI triples"),
    "sbert": TrainingMethod(SBERTModule, SiameseDataModule, "Sentence-BERT on NLI or STS labels"),
}


def chosen_method(argv: Sequence[str]) -> str:
    """Name of the method that a command line asks for, before its parser exists: the last of --method and configs.

    Raises:
        UserError: If the name is unknown.
    """
    name = "flow"
    for option, value in _pairs(argv):
        if option == "--method":
            name = value
        elif option in ("--config", "-c"):
            name = str(read_config(value).get("method", name))
    if name not in METHODS:
        raise UserError(f"--method: received {name!r}; {choices(METHODS, name)}")
    return name


def _pairs(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Options with their values, in the order given, whether joined by ``=`` or not."""
    pairs = []
    for word, following in zip_longest(argv, argv[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        if option.startswith("-"):
            pairs.append((option, value if equals else following))
    return pairs


def read_config(path: str) -> dict[str, Any]:
    """Content of a config file, its groups checked to be groups; empty if there is no such file (the parser tells).

    Raises:
        UserError: If it is no YAML mapping, or a group such as ``data`` is not one.
    """
    if not Path(path).is_file():
        return {}
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config: {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"--config: {path} holds {type(content).__name__}; allowed: a mapping of options")
    for group in _GROUPS:
        if content.get(group) is not None and not isinstance(content[group], dict):
            raise UserError(f"--config: {path}: {group} is {content[group]!r}; allowed: a mapping of options")
    return content
