"""Composition of maps: each step is fitted on what the steps before it give."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from flowbert.calibration.base import Calibration, Rows, checked_rows
from flowbert.calibration.moments import Moments
from flowbert.errors import UserError

Blocks = Callable[[], Iterable[Tensor]]
"""Gives the rows ``(n_i, D)`` of a corpus from the start, block by block, each time it is called."""


class LabelledPairs(NamedTuple):
    """Vectors of P pairs, each ``(P, D)``, and their scores ``(P,)``, for supervised steps."""

    left: Tensor
    right: Tensor
    scores: Tensor


class Step(Protocol):
    """A map that is fitted on all rows at once, e.g. a flow; a :class:`Calibration` is fitted block by block."""

    def fit(self, x: Tensor, /) -> Any:
        """Fit on rows ``(N, D)``."""

    def transform(self, x: Tensor, /) -> Tensor:
        """Map rows ``(N, D)`` to ``(N, k)``."""

    def output_dim(self, dim: int, /) -> int:
        """Size k for rows of size D, or a UserError if these do not fit."""


@runtime_checkable
class Supervised(Protocol):
    """A calibration that learns from labelled pairs after it has seen the rows."""

    def fit_pairs(self, x1: Tensor, x2: Tensor, scores: Tensor, /) -> Any:
        """Learn from P pairs, each ``(P, D)``, and their scores ``(P,)``."""


class Chain:
    r"""Composition :math:`y = f_n(\dots f_1(x))`; step i is fitted on :math:`f_{i-1}(\dots f_1(x))` of the same rows.

    Args:
        steps: Calibrations, or anything else with ``fit`` and ``transform``, the first one first.

    Shapes:
        x: ``(N, D)``; transformed: ``(N, k)``.  N: sentences, D: embedding size, k: size after the last step.

    Raises:
        ValueError: If there is no step.

    Example:
        >>> from flowbert.calibration import Standardization, Whitening
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> y = Chain([Standardization(), Whitening(n_components=2)]).fit(x).transform(x)
        >>> torch.allclose(torch.cov(y.T), torch.eye(2), atol=1e-5)
        True
    """

    def __init__(self, steps: Sequence[Calibration | Step]) -> None:
        if not steps:
            raise ValueError("a chain has no step; allowed: at least one")
        self.steps = tuple(steps)

    @property
    def supervised(self) -> bool:
        """Whether a step learns from labels."""
        return any(isinstance(step, Supervised) for step in self.steps)

    @property
    def flaw(self) -> str | None:
        """Why the figures of the fitted chain would mean nothing; the first flaw of a step; None without any."""
        return next((flaw for step in self.steps if (flaw := getattr(step, "flaw", None)) is not None), None)

    def output_dim(self, dim: int) -> int:
        """Size k after the last step, given the size D of the rows.

        Raises:
            UserError: If a step's arguments do not fit what the steps before it give.
        """
        for step in self.steps:
            dim = step.output_dim(dim)
        return dim

    def fit(self, x: Rows, pairs: LabelledPairs | None = None) -> Self:
        """Fit all steps on rows ``(N, D)``. Returns self."""
        rows = checked_rows(x)
        return self.fit_blocks(lambda: [rows], pairs)

    @property
    def moments(self) -> Moments | None:
        """Moments of the rows that it was fitted on, where the first step is a calibration: it starts from them."""
        first = self.steps[0]
        return first.moments if isinstance(first, Calibration) else None

    def fit_blocks(self, blocks: Blocks, pairs: LabelledPairs | None = None, moments: Moments | None = None) -> Self:
        """Fit all steps, going through the rows once per step. Returns self.

        Args:
            blocks: The rows.
            pairs: Labelled pairs for supervised steps; the steps before map them, too.
            moments: Their moments, where they are known: a calibration that comes first needs no rows then.

        Raises:
            UserError: If a supervised step has no pairs.
        """
        for number, step in enumerate(self.steps):
            before = partial(_apply, self.steps[:number])
            if not isinstance(step, Calibration):
                step.fit(torch.cat([before(block) for block in blocks()]))
                continue
            step.reset()
            if number == 0 and moments is not None:
                step.add_moments(moments)
            else:
                for block in blocks():
                    step.partial_fit(before(block))
            if isinstance(step, Supervised):
                if pairs is None:
                    raise UserError(f"method {step.method} is supervised and has no labelled pairs; needed: some")
                step.fit_pairs(before(pairs.left), before(pairs.right), pairs.scores)
        return self

    def transform(self, x: Tensor) -> Tensor:
        """Map rows ``(N, D)`` through all steps."""
        return _apply(self.steps, x)


def _apply(steps: Sequence[Calibration | Step], x: Tensor) -> Tensor:
    return reduce(lambda rows, step: step.transform(rows), steps, x)
