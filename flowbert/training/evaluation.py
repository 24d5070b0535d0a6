"""Scores of every method on the development split during a training, and on the test split."""

from collections.abc import Sequence
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from torch import Tensor

from flowbert.errors import warn
from flowbert.tasks import STS
from flowbert.training.callbacks import WhiteningBaseline

_CLEARLY = 0.01
"""Difference of two correlations that is told."""

_LIKELIHOODS = ("held_out/bits_per_dim", "train/bits_per_dim")


class TaskEvaluation(Callback):
    """Log Spearman, alignment and uniformity of raw, the baseline and the trained method.

    The names are ``METHOD/TASK/SPLIT/spearman_wmean``, ``.../alignment``, ``.../uniformity`` and
    ``.../mean_cosine``; after a head that is a map, the method is ``METHOD+head``. Every process
    measures the whole split, so that nothing is gathered and all log the same. ``Trainer.test``
    measures the test split of the tasks.

    A fit ends with a warning if the score of a task fell by a point from its best while the
    likelihood kept rising, or if the baseline's score is a point higher.

    Args:
        tasks: Tasks of the development split.
        embed: Embeddings of sentences before the training, ``(M, D)``: an encoder, or a function
            such as ``encoder.encode``.
        baseline: A :class:`WhiteningBaseline` or fitted map to compare the trained method with.
    """

    def __init__(
        self,
        tasks: Sequence[STS],
        embed: Any,
        baseline: Any = None,
    ) -> None:
        self.tasks = tasks
        self.embed = getattr(embed, "encode", embed)
        if baseline is not None and not isinstance(baseline, WhiteningBaseline):
            baseline = WhiteningBaseline(baseline)
        self.baseline = baseline
        self._fixed: dict[STS, dict[str, float]] = {}  # what training does not change
        self._history: list[dict[str, float]] = []  # of the validations of a fit

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Begin anew: an earlier fit of this callback had another baseline and other scores."""
        self._fixed = {}
        if stage == "fit":
            self._history = []

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure and log."""
        self._log(self.tasks, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure the test split, where the data of a task has one, and log."""
        tested = [task for task in self.tasks if "test" in task.data.splits]
        self._log([task.other_split("test") for task in tested], pl_module)

    def _log(self, tasks: Sequence[STS], pl_module: Any) -> None:
        for task in tasks:
            start = torch.from_numpy(self.embed(task.sentences))
            if task not in self._fixed:
                self._fixed[task] = _scores("raw", task, start)
                if self.baseline is not None:
                    fitted, name = self.baseline.map, self.baseline.name
                    mapped = fitted.transform(start)
                    scores = _scores(name, task, mapped, fitted.invalid_reason)
                    self._fixed[task] |= scores
            now = pl_module.embed_sentences(task.sentences, start)
            figures = self._fixed[task] | _scores(pl_module.name, task, now)
            for name, mapped in pl_module.mapped(now).items():
                figures |= _scores(name, task, mapped)
            # Equal on all processes; the largest is exactly that, a mean may not be.
            pl_module.log_dict(figures, sync_dist=True, reduce_fx="max")

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Keep the correlations and the likelihood."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            kept = {
                name: float(value)
                for name, value in trainer.callback_metrics.items()
                if name.endswith("/spearman_all") or name in _LIKELIHOODS
            }
            self._history.append({"step": trainer.global_step, **kept})

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Compare the end of the training with its best score, and with the baseline."""
        if not trainer.is_global_zero or not self._history:
            return
        for task in self.tasks:
            where = f"{task.name}/{task.split}/spearman_all"
            rival = None if self.baseline is None else f"{self.baseline.name}/{where}"
            messages = find_regressions(
                self._history, f"{pl_module.name}/{where}", rival
            )
            for message in messages:
                warn(message)

    def state_dict(self) -> dict[str, Any]:
        """Scores so far, for a resumed fit."""
        return {"history": self._history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore it."""
        self._history = list(state_dict["history"])


def find_regressions(
    history: Sequence[dict[str, float]], own: str, rival: str | None
) -> list[str]:
    """Warnings about a fit whose final score is below its best, or below the baseline.

    Args:
        history: Step, scores and, of a flow, bits per dimension by name, of each validation.
        own: Name of the score.
        rival: Name of the baseline's.

    Example:
        >>> scores = {1: 0.7, 2: 0.6}
        >>> names = "flow/STSB/dev/spearman_all", "zca/STSB/dev/spearman_all"
        >>> steps = [
        ...     {"step": step, names[0]: score, names[1]: 0.65} for step, score in scores.items()
        ... ]
        >>> [message[:41] for message in find_regressions(steps, *names)]
        ['flow on STSB/dev: 60.0, below zca: 65.0; ']
    """
    last, best = history[-1], max(history, key=lambda each: each[own])
    method, _, task = own.rpartition("/")[0].partition("/")
    where = f"{method} on {task}: {100 * last[own]:z.1f}"
    messages = []
    for name in _LIKELIHOODS:
        rose = name in last and last[name] < best[name]
        if rose and best[own] - last[own] > _CLEARLY:
            messages.append(
                f"{where} at the end and {100 * best[own]:z.1f} at step "
                f"{best['step']}, while the likelihood rose from {best[name]:.3f} to "
                f"{last[name]:.3f} bits per dimension; a better density is not a "
                "better similarity: try fewer steps, or more noise"
            )
            break
    if rival is not None and last[rival] - last[own] > _CLEARLY:
        messages.append(
            f"{where}, below {rival.partition('/')[0]}: {100 * last[rival]:z.1f}; use that map, "
            "train longer, or change the noise"
        )
    return messages


def _scores(
    method: str, task: STS, vectors: Tensor, invalid_reason: str | None = None
) -> dict[str, float]:
    scores = task.measure(vectors, invalid_reason).scores
    named = {}
    for (metric, aggregation), value in scores.items():
        name = f"{metric}_{aggregation}" if metric == "spearman" else metric
        named[f"{method}/{task.name}/{task.split}/{name}"] = value
    return named
