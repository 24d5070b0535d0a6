"""Distillation as a LightningModule: an encoder learns a teacher's vectors, without labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from flowbert.arrays import Floats
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, check_choice, check_unused
from flowbert.methods.examples import Examples
from flowbert.methods.losses import distance_loss, listwise_loss
from flowbert.methods.text import TextBatch, TextDataModule
from flowbert.methods.trained import TrainedModule
from flowbert.seeding import Stream

DISTILLATION_OBJECTIVES = ("l2", "listwise")
"""Objectives of distillation."""

_STUDENT_TEMPERATURE = 0.07
_TEACHER_TEMPERATURE = 0.05
_QUEUE_SIZE = 16384
_ROWS_AT_ONCE = 16384  # vectors that are mapped, or compared, together


class DistillationModule(TrainedModule):
    r"""Train an encoder on a teacher's vectors of the same sentences.

    ``l2``: squared distance of unit-length vectors, :math:`\lVert u - t \rVert^2`; ``listwise``:
    divergence of the student's from the teacher's distribution over a queue, which are softmaxes
    of cosines, see :func:`flowbert.methods.losses.listwise_loss`. The queue holds the teacher's
    vectors of a fixed sample of the sentences. The targets of the examples are those of
    :func:`teach`.

    References:
        Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation (Reimers
        and Gurevych, 2020). https://arxiv.org/abs/2004.09813

        ConGen: Unsupervised Control and Generalization Distillation For Sentence Representation
        (Limkonchotiwat et al., 2022). https://github.com/KornWtp/ConGen

    Args:
        encoder: The encoder to train, the student.
        objective: ``l2`` or ``listwise``.
        student_temperature: Temperature of the student's cosines with ``listwise``; default 0.07.
        teacher_temperature: Temperature of the teacher's cosines with ``listwise``; default 0.05.
        queue_size: Sentences in the queue of ``listwise``, at most those that are trained on;
            default 16,384.
        chunk_size: Sentences whose activations are in memory at once, by gradient caching, which
            takes a third more time; None for all.
        learning_rate: Peak learning rate of AdamW.
        **shared: Further arguments of :class:`TrainedModule`.

    Raises:
        UserError: If an argument is outside of its limits or has no effect.
    """

    name = "distillation"
    queue: Tensor

    def __init__(
        self,
        encoder: SentenceEncoder,
        objective: str = "l2",
        student_temperature: float | None = None,
        teacher_temperature: float | None = None,
        queue_size: int | None = None,
        chunk_size: int | None = None,
        learning_rate: float = 3e-4,
        **shared: Any,
    ) -> None:
        check_choice("objective", objective, DISTILLATION_OBJECTIVES)
        super().__init__(encoder, **shared)
        if objective != "listwise":
            check_unused(
                f"method distillation with objective {objective}",
                student_temperature=student_temperature,
                teacher_temperature=teacher_temperature,
                queue_size=queue_size,
            )
        # It follows from the examples: no checkpoint holds it.
        self.register_buffer("queue", torch.empty(0, encoder.dim), persistent=False)

    def check_examples(self, examples: Examples) -> None:
        """Raise an error for examples without a teacher's vectors of the student's size."""
        targets = examples.targets
        shape = len(examples), self.encoder.dim
        if targets is None or targets.shape != shape:
            received = None if targets is None else targets.shape
            raise ValueError(
                f"examples: received targets of shape {received}; expected {shape}, see teach"
            )

    def setup(self, stage: str) -> None:
        """Fill the queue."""
        super().setup(stage)
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        if isinstance(datamodule, TextDataModule) and stage != "predict":
            self.fill_queue(datamodule)

    def fill_queue(self, data: TextDataModule) -> None:
        """Draw the queue from the sentences that are trained on."""
        if self.hparams["objective"] != "listwise":
            return
        self.check_examples(data.examples)
        size = self.hparams["queue_size"] or _QUEUE_SIZE
        order = Stream(self.hparams["seed"], "queue").rng().permutation(data.fitted)
        targets: Any = data.examples.targets
        self.queue = torch.from_numpy(targets[np.sort(order[:size])]).to(self.device)

    def batch_loss(self, batch: TextBatch) -> Tensor:
        """Loss of the objective."""
        (student,) = self.embed(batch)
        if self.hparams["objective"] == "l2":
            return distance_loss(student, batch["targets"])
        ours = self.hparams["student_temperature"] or _STUDENT_TEMPERATURE
        theirs = self.hparams["teacher_temperature"] or _TEACHER_TEMPERATURE
        return listwise_loss(student, batch["targets"], self.queue, ours, theirs)


def teach(
    examples: Examples, vectors: NDArray[np.float32], start: NDArray[np.float32]
) -> Examples:
    r"""Examples with a teacher's vectors as targets, turned into the space of the student.

    Targets are unit-length vectors :math:`t W / \lVert t W \rVert`. Where the teacher has more
    dimensions than the student, W first keeps those in which its unit-length vectors are longest
    (a singular value decomposition without centering): of all projections it changes their
    inner products least in squares (Eckart and Young). A rotation follows, or with fewer
    dimensions an isometry, after which the teacher's vectors are nearest to those of the student
    before the training (orthogonal Procrustes): it changes no cosine, and the student has less to
    learn.

    References:
        The approximation of one matrix by another of lower rank (Eckart and Young, 1936).
        https://doi.org/10.1007/BF02288367

        A generalized solution of the orthogonal Procrustes problem (Schönemann, 1966).
        https://doi.org/10.1007/BF02289451

    Args:
        examples: N examples of one column.
        vectors: The teacher's vectors of the column, ``(N, K)``.
        start: The student's vectors before the training, of the sentences at
            :func:`compared_rows`, ``(n, D)``.

    Returns:
        The examples with targets, ``(N, D)``.

    Raises:
        UserError: If a vector of the teacher is not finite.
    """
    if not np.isfinite(vectors).all():
        raise UserError(
            "received one whose vectors are not finite; expected another one",
            argument="teacher",
        )
    weight = _turn(_unit(vectors[compared_rows(len(vectors))]), _unit(start))
    starts = range(0, len(vectors), _ROWS_AT_ONCE)
    blocks = (vectors[start : start + _ROWS_AT_ONCE] for start in starts)
    targets = np.concatenate([_unit(_unit(block) @ weight) for block in blocks])
    return replace(examples, targets=targets)


def compared_rows(size: int) -> slice:
    """Which of N sentences are compared before the training: all, or 16,384 at even distances."""
    return slice(0, size, max(1, -(-size // _ROWS_AT_ONCE)))


def _turn(teacher: Floats, student: Floats) -> Floats:
    """W, ``(K, D)``, from unit-length vectors of both, ``(n, K)`` and ``(n, D)``."""
    t, x = (torch.from_numpy(rows).double() for rows in (teacher, student))
    kept = torch.eye(t.shape[1], dtype=torch.float64)
    if t.shape[1] > x.shape[1]:
        kept = torch.linalg.eigh(t.T @ t).eigenvectors[:, -x.shape[1] :]
    left, _, right = torch.linalg.svd(kept.T @ t.T @ x, full_matrices=False)
    weight: Floats = (kept @ left @ right).float().numpy()
    return weight


def _unit(rows: NDArray[Any]) -> Floats:
    """Rows of length 1; a row of zeros stays one."""
    scaled: Floats = nn.functional.normalize(torch.from_numpy(rows)).numpy()
    return scaled
