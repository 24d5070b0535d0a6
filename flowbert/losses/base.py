"""The contract of contrastive losses."""

from abc import ABC, abstractmethod

from torch import Tensor, nn


class ContrastiveLoss(nn.Module, ABC):
    """A loss on the embeddings of B sentences and of their positives; what the batch holds beside are negatives.

    A new loss is one file in ``flowbert/losses/`` with a subclass, whose constructor takes its settings and keeps each
    in an attribute of the same name, and one import line in ``flowbert/losses/__init__.py``. A configuration names it
    by its class, one from elsewhere by its import path.

    Shapes:
        first, second, hard: ``(B, D)``; result: ``()``.  B: batch, D: embedding size.
    """

    @abstractmethod
    def forward(self, first: Tensor, second: Tensor, hard: Tensor | None = None) -> Tensor:
        """The loss.

        Args:
            first: Embeddings of the sentences.
            second: Embeddings of their positives.
            hard: One hard negative for each sentence, where the data have them.
        """


def check_shapes(*embeddings: Tensor | None) -> None:
    """Refuse embeddings that are not all of one shape ``(B, D)``.

    Raises:
        ValueError: With the shapes received.
    """
    shapes = [tuple(tensor.shape) for tensor in embeddings if tensor is not None]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"received embeddings of shapes {shapes}; allowed: one shape (B, D) for all")
