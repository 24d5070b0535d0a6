"""Closed-form whitening as a callback: fitted on the training corpus, evaluated wherever the trained method is."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from flowbert.calibration import Whitening
from flowbert.calibration.moments import Moments
from flowbert.processes import exchanged
from flowbert.progress import progress


class WhiteningBaseline(Callback):
    r"""Whitening :math:`y = (x - \mu) U_{:, :k} \Lambda_{:k}^{e}` of the training corpus, beside the trained method.

    Fitted once, before the first step (or before a validation or test that no fit preceded), from the data module's
    ``corpus_chunks()``; its statistics travel with the checkpoint, so a resumed run does not fit again. With several
    processes each reads its share of the corpus, and all merge the moments of all in the same order: they have the same
    map, that of one process up to float64 rounding.

    References:
        Whitening Sentence Representations for Better Semantics and Faster Retrieval (Su et al., 2021).
        https://arxiv.org/abs/2103.15316

    Args:
        n_components: Directions kept; default: all.
        shrinkage: Share of the mean eigenvalue mixed into the covariance, in [0, 1], or ``ledoit-wolf``.
        exponent: Power of the eigenvalues; -0.5 whitens, between -0.5 and 0 softens.
    """

    name = "whitening"

    def __init__(self, n_components: int | None = None, shrinkage: float | str = 0.0, exponent: float = -0.5) -> None:
        self.calibration = Whitening(n_components=n_components, shrinkage=shrinkage, exponent=exponent)
        self._state_key = self._generate_state_key(**self.calibration.config)  # Lightning asks for it in every step

    @property
    def state_key(self) -> str:
        """Key in a checkpoint; one per setting."""
        return self._state_key

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit, unless a checkpoint brought the statistics, or a training, validation or test came before."""
        if not self.calibration.fitted:
            datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit and its siblings
            with progress(datamodule.corpus_rows, "Fitting whitening", "rows") as step:
                for chunk in datamodule.corpus_chunks():
                    self.calibration.partial_fit(chunk)
                    step.update(len(chunk) * trainer.world_size)
            self._merge(trainer)

    def _merge(self, trainer: Trainer) -> None:
        if trainer.world_size == 1:
            return
        mine = self.calibration.moments  # none if this process's share is empty
        self.calibration.reset()
        processes: Any = trainer.strategy
        for state in exchanged(processes, {} if mine is None else mine.state_dict()):
            if state:
                self.calibration.add_moments(Moments.from_state_dict(state))

    on_validation_start = on_test_start = on_fit_start

    @property
    def flaw(self) -> str | None:
        """Why its figures mean nothing; None if they mean something."""
        return self.calibration.flaw

    def transform(self, embeddings: Tensor) -> Tensor:
        """Whiten raw embeddings: ``(N, D)`` -> ``(N, k)``."""
        return self.calibration.transform(embeddings)

    def state_dict(self) -> dict[str, Any]:
        """Statistics as plain tensors; empty before the fit."""
        return dict(self.calibration.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the statistics of a checkpoint."""
        self.calibration.load_state_dict(state_dict)
