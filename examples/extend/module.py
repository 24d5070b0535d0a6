"""A custom module with a regularizer that keeps the vectors of words short.

python examples/extend/module.py fit --config examples/extend/module.yaml --model.weight 0.1
"""

from typing import Any

from pytorch_lightning.cli import LightningCLI

from flowbert import SentenceEncoder
from flowbert.methods import MLMModule, TextDataModule, make_examples


class ShortWords(MLMModule):
    """Masked language modelling, with the mean norm of the vectors of words in the loss."""

    def __init__(self, path: str, weight: float = 0.1, **options: Any) -> None:
        super().__init__(SentenceEncoder(path, frozen=False), **options)
        self.norm_weight = weight

    def batch_losses(self, batch: Any, random: Any) -> Any:
        """By name: weight, mean, and number of examples."""
        words = self.predictor.get_input_embeddings().weight
        norm = self.norm_weight, words.norm(dim=1).mean(), 1
        return super().batch_losses(batch, random) | {"word_norm": norm}


class Sentences(TextDataModule):
    """Sentences of a file, in tokens of the encoder."""

    def __init__(self, path: str, corpus: str, **options: Any) -> None:
        examples = make_examples("sentences", corpus)
        super().__init__(SentenceEncoder(path), examples, **options)


if __name__ == "__main__":
    cli = LightningCLI(ShortWords, Sentences)
