"""What ``fit --method NAME`` trains: the LightningModule and the data module that belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from flowbert.data.base import CorpusDataModule
from flowbert.data.contrastive import ContrastiveDataModule, SiameseDataModule
from flowbert.data.mlm import MLMDataModule
from flowbert.data.module import EmbeddingDataModule
from flowbert.errors import UserError, choices
from flowbert.modules import EmbeddingModule, FlowModule, MLMModule, SBERTModule, SimCSEModule


@dataclass(frozen=True)
class Method:
    """A trainable method: its module, its data, and one line for the help."""

    module: type[EmbeddingModule]
    data: type[CorpusDataModule]
    summary: str

    @property
    def frozen_encoder(self) -> bool:
        """Whether the encoder stays as it is, so that closed-form baselines belong beside the method."""
        return self.module.frozen_encoder


METHODS = {
    "flow": Method(FlowModule, EmbeddingDataModule, "BERT-flow: a Glow-style flow on frozen embeddings"),
    "mlm": Method(MLMModule, MLMDataModule, "masked language modelling: continue pretraining, or start from scratch"),
    "simcse": Method(SimCSEModule, ContrastiveDataModule, "SimCSE, without labels or from NLI triples"),
    "sbert": Method(SBERTModule, SiameseDataModule, "Sentence-BERT on NLI or STS labels"),
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
            name = _method_in(value, default=name)
    if name not in METHODS:
        raise UserError(f"--method: received {name!r}; {choices(METHODS, name)}")
    return name


def _pairs(argv: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [(a.split("=", 1)[0], a.split("=", 1)[1]) for a in argv if a.startswith("-") and "=" in a]
    return pairs + [(a, b) for a, b in pairwise(argv) if a.startswith("-")]


def _method_in(path: str, default: str) -> str:
    """The entry ``method`` of a config file; the parser itself complains about a file that cannot be read."""
    file = Path(path)
    if not file.is_file():
        return default
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        return default
    return str(content.get("method", default)) if isinstance(content, dict) else default
