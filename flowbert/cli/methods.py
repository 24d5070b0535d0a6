"""What ``fit --method NAME`` trains: the LightningModule and the data module that belong together."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowbert.cli.parser import NOTHING, given_options
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.mlm import MLMDataModule
from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.errors import UserError, choices
from flowbert.modules import EmbeddingModule, FlowModule, MLMModule, SBERTModule, SimCSEModule, WhiteningModule


@dataclass(frozen=True)
class TrainingMethod:
    """A trainable method: its module, its data, and one line for the help."""

    module: type[EmbeddingModule]
    data: type[CorpusDataModule]
    summary: str


METHODS = {
    "flow": TrainingMethod(FlowModule, EmbeddingDataModule, "BERT-flow: a Glow-style flow on frozen embeddings"),
    "whitening": TrainingMethod(WhiteningModule, EmbeddingDataModule, "closed-form whitening alone, nothing trained"),
    "mlm": TrainingMethod(MLMModule, MLMDataModule, "masked language modelling, continued or from scratch"),
    "simcse": TrainingMethod(SimCSEModule, ContrastiveDataModule, "SimCSE, without labels or from NLI triples"),
    "sbert": TrainingMethod(SBERTModule, SiameseDataModule, "Sentence-BERT on NLI or STS labels"),
}


def chosen_method(argv: Sequence[str]) -> str:
    """Name of the method that a command line asks for, before its parser exists: the last of --method and configs.

    Raises:
        UserError: If the name is unknown.
    """
    asked = [value for _, option, value in given_options(argv) if option == "method" and value is not NOTHING]
    name = str(asked[-1]) if asked else "flow"
    if name not in METHODS:
        raise UserError(f"--method: received {name!r}; {choices(METHODS, name)}")
    return name
