"""Sentence-BERT as a LightningModule: pairs or triples through one encoder, supervised."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.encoder_module import EncoderModule
from flowbert.methods.examples import Examples
from flowbert.methods.losses import Losses
from flowbert.methods.text import TextBatch
from flowbert.numbers import Seed
from flowbert.options import SBERTOptions
from flowbert.seeding import Stream

_CLASSES = 3


class SBERTModule(EncoderModule):
    r"""Train an encoder on labelled pairs or triples.

    ``softmax``: cross-entropy of :math:`\mathrm{softmax}(W [u; v; |u - v|] + b)` over entailment,
    neutral and contradiction; ``cosine``: squared error of :math:`\cos(u, v)` and the score as a
    share of its range (score / 5 on STS-B); ``triplet``:
    :math:`\max(\lVert a - p \rVert - \lVert a - n \rVert + 1, 0)`. The defaults are the published
    settings; the published batch has 16 examples.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Args:
        encoder: The encoder to train.
        seed: Seed of dropout and the classifier.
        **options: Fields of :class:`flowbert.options.SBERTOptions`.

    Raises:
        UserError: If an argument is outside of its limits.
    """

    name = "sbert"

    def __init__(
        self, encoder: SentenceEncoder, *, seed: Seed = 0, **options: Any
    ) -> None:
        chosen = SBERTOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen)
        super().__init__(encoder, seed=seed, **chosen.training())
        self.objective = chosen.objective
        self.margin = 1.0 if chosen.margin is None else chosen.margin
        self.chunk_size = chosen.chunk_size
        self.classifier: Any = None
        if self.objective == "softmax":
            with Stream(self.seed, "classifier").torch():
                self.classifier = nn.Linear(3 * encoder.dim, _CLASSES)

    def check_examples(self, examples: Examples) -> None:
        """Raise an error for examples of another objective."""
        target_kind = None if examples.targets is None else examples.targets.dtype.kind
        needed = {"softmax": (2, "i"), "cosine": (2, "f"), "triplet": (3, None)}
        if (len(examples.columns), target_kind) != needed[self.objective]:
            raise UserError(
                f"received {self.objective!r}, which cannot train on {examples.name}",
                argument="objective",
            )

    def batch_losses(self, batch: TextBatch, random: Stream) -> Losses:
        """Loss of the objective."""
        columns, objective = self.embed(batch), self.objective
        if objective == "triplet":
            first, second, third = columns
            loss = triplet_loss(first, second, third, self.margin)
        else:
            first, second = columns
            targets = batch["targets"]
            if objective == "cosine":
                loss = cosine_loss(first, second, targets)
            else:
                loss = softmax_loss(first, second, targets, self.classifier)
        return {f"{objective}_loss": (1.0, loss, batch["rows"].shape[1])}


def softmax_loss(u: Tensor, v: Tensor, labels: Tensor, classifier: nn.Linear) -> Tensor:
    r"""Cross-entropy of :math:`\mathrm{softmax}(W [u; v; |u - v|] + b)`, in float32.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        labels: Class of each pair, ``(B,)``, 0 to K - 1.
        classifier: W ``(K, 3D)`` and b.

    Returns:
        Shape ``()``, nats.
    """
    with torch.autocast(u.device.type, enabled=False):
        u, v = u.float(), v.float()
        features = torch.cat([u, v, (u - v).abs()], dim=1)
        return functional.cross_entropy(classifier(features), labels)


def cosine_loss(u: Tensor, v: Tensor, targets: Tensor) -> Tensor:
    r"""Mean of :math:`(\cos(u, v) - y)^2`, in float32.

    Args:
        u: Embeddings of the first sentences, ``(B, D)``.
        v: Embeddings of the second ones, ``(B, D)``.
        targets: Cosines y to reach, ``(B,)``.

    Returns:
        Shape ``()``.

    Example:
        >>> cosine_loss(torch.eye(2), torch.eye(2), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    with torch.autocast(u.device.type, enabled=False):
        cosines = functional.cosine_similarity(u.float(), v.float())
        return functional.mse_loss(cosines, targets.float())


def triplet_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0
) -> Tensor:
    r"""Mean of :math:`\max(\lVert a - p \rVert - \lVert a - n \rVert + m, 0)`, in float32.

    Args:
        anchor: Embeddings a, ``(B, D)``.
        positive: Embeddings p, ``(B, D)``.
        negative: Embeddings n, ``(B, D)``.
        margin: Margin m.

    Returns:
        Shape ``()``.

    Example:
        >>> triplet_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
        tensor(1.)
    """
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = anchor.float(), positive.float(), negative.float()
        # Its gradient is 0 where the difference is: an identical pair gives no NaN.
        near = torch.linalg.vector_norm(a - p, dim=1)
        far = torch.linalg.vector_norm(a - n, dim=1)
        return functional.relu(near - far + margin).mean()
