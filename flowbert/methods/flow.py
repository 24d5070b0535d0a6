"""The flow as a map of embeddings in memory: the one path that fits a flow, no encoder and no files."""

import inspect
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy.typing as npt
import torch
from pytorch_lightning import LightningDataModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.calibration.few_rows import DistinctRows, few_rows
from flowbert.datamodules.batches import BatchSampler, TrainingLoader
from flowbert.errors import UserError
from flowbert.modules.flow import FlowModule
from flowbert.notices import lightning_notices_filtered
from flowbert.seeding import Stream
from flowbert.training.progress_bar import TrainingProgress

_TRAINING: dict[str, tuple[Callable[[float], bool], str]] = {
    "epochs": (lambda n: n > 0 and (n <= 1 or n == int(n)), "a whole number, or a share of one epoch above 0"),
    "steps": (lambda n: n >= 1 and n == int(n), "a whole number of at least 1"),
    "batch_size": (lambda n: n >= 1 and n == int(n), "a whole number of at least 1"),
    "start_size": (lambda n: n >= 2 and n == int(n), "a whole number of at least 2"),
}
_EPOCHS = 3.0
_TRIAL_DIM = 2**8  # of a flow that is built only to check its options: more levels fit than anybody wants


def flow_options() -> list[str]:
    """Names of the options that a flow fitted here takes."""
    not_options = ("dim", "encoder", "seed")
    return [*_TRAINING, *(name for name in inspect.signature(FlowModule).parameters if name not in not_options)]


def check_flow_options(options: Mapping[str, Any], dim: int = _TRIAL_DIM) -> None:
    """Refuse options that no flow on vectors of size ``dim`` can have, before anything is encoded.

    Raises:
        UserError: If a value is not allowed.
    """
    _check_training(options)
    FlowModule(dim, **{name: value for name, value in options.items() if name not in _TRAINING})


def _check_training(options: Mapping[str, Any]) -> None:
    for name, (holds, allowed) in _TRAINING.items():
        if name not in options:
            continue
        value = options[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not holds(value):
            raise UserError(f"{name}: received {value}; allowed: {allowed}")
    if {"steps", "epochs"} <= options.keys():
        raise UserError(f"steps: received {options['steps']} and epochs {options['epochs']}; allowed: one of the two")


def fit_flow(
    embeddings: Tensor | npt.NDArray[Any],
    *,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int = 64,
    start_size: int = 1024,
    seed: int = 0,
    accelerator: str = "auto",
    **options: Any,
) -> FlowModule:
    """Fit a flow on embeddings by maximum likelihood, with the recipe of ``configs/flow_target.yaml``.

    Args:
        embeddings: Shape ``(N, D)``, one row per sentence, every occurrence counted.
        epochs: Passes over the embeddings; less than one is one pass over that share of them, drawn by the seed. None:
            3, if there are no steps.
        steps: Steps in place of epochs, as many on few embeddings as on many.
        batch_size: Rows per step.
        start_size: Rows that drive the data-dependent start.
        seed: Seed of the flow's start, the shuffling and the noise.
        accelerator: Lightning's name of the device: ``auto``, ``cpu``, ``gpu``.
        **options: Arguments of :class:`flowbert.modules.FlowModule`, such as ``mixing`` or ``noise``.

    Returns:
        The fitted module; ``module.embed(x)`` gives latents, ``module.flow`` is the flow itself.

    Raises:
        ValueError: If the embeddings are not ``(N, D)`` with N at least 2.
        UserError: If they are not finite, or an option is not allowed.

    Example:
        >>> import torch, flowbert
        >>> x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0)) * 5 + 3
        >>> flowbert.fit_flow(x, epochs=1, accelerator="cpu").embed(x).shape
        torch.Size([256, 8])
    """
    rows = torch.as_tensor(embeddings, dtype=torch.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"embeddings: received shape {tuple(rows.shape)}; allowed: (N, D), N at least 2")
    numbers = {"epochs": epochs, "steps": steps, "batch_size": batch_size, "start_size": start_size}
    _check_training({name: number for name, number in numbers.items() if number is not None})
    epochs = _EPOCHS if epochs is None else epochs
    module = FlowModule(rows.shape[1], seed=seed, **options)
    if epochs < 1:
        order = torch.randperm(len(rows), generator=Stream(seed, "subset").generator())
        rows = rows[order[: max(2, round(epochs * len(rows)))]]
    with tempfile.TemporaryDirectory() as scratch, lightning_notices_filtered():
        trainer = Trainer(
            max_epochs=max(1, int(epochs)) if steps is None else -1,
            max_steps=-1 if steps is None else int(steps),
            accelerator=accelerator,
            devices=1,
            gradient_clip_val=1.0,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            callbacks=[TrainingProgress()],
            default_root_dir=scratch,
        )
        with torch.random.fork_rng():
            trainer.fit(module, datamodule=_TensorData(rows, int(batch_size), int(start_size), seed))
    return module.eval()


class _TensorData(LightningDataModule):
    """Embeddings in memory, with the start sample that FlowModule asks for."""

    def __init__(self, embeddings: Tensor, batch_size: int, start_size: int, seed: int) -> None:
        super().__init__()
        self._embeddings = embeddings
        self._batch_size = batch_size
        self._start_size = start_size
        self._seed = seed

    def distinct_examples(self) -> int:
        return int(DistinctRows(self._embeddings.shape[1] + 1).update(self._embeddings))

    def start_sample(self) -> Tensor:
        order = Stream(self._seed, "start sample").rng().permutation(len(self._embeddings))
        return self._embeddings[order[: self._start_size]]

    def train_dataloader(self) -> DataLoader[Any]:
        sampler = BatchSampler([0] * len(self._embeddings), self._batch_size, 1, self._seed)
        return TrainingLoader(lambda _, rows: self._embeddings[rows].numpy(), sampler, lambda: (0, 0))


class Flow:
    """A flow fitted by :func:`fit_flow`, as a step of a :class:`flowbert.methods.Chain`.

    Args:
        options: Arguments of :func:`fit_flow`.
        seed: Seed of the start, the order and the noise.
        accelerator: Lightning's name of the device.

    Attributes:
        flaw: Why the fitted flow's figures mean nothing; None if they mean something.

    Raises:
        UserError: If a value is not allowed; nothing has been encoded by then.
    """

    def __init__(self, options: Mapping[str, Any], seed: int = 0, accelerator: str = "cpu") -> None:
        check_flow_options(options)
        self.options = dict(options)
        self.seed = seed
        self.accelerator = accelerator
        self.flaw: str | None = None
        self._fitted: FlowModule | None = None

    def output_dim(self, dim: int) -> int:
        """The same size, if the levels of the flow fit into it."""
        check_flow_options(self.options, dim)
        return dim

    def fit(self, x: Tensor) -> Self:
        """Fit on rows ``(N, D)``. Returns self."""
        if len(x) < 2:  # nothing to start from
            self.flaw = few_rows(len(x), x.shape[1])
            return self
        self._fitted = fit_flow(x, seed=self.seed, accelerator=self.accelerator, **self.options)
        self.flaw = self._fitted.flaw
        return self

    @property
    def fitted(self) -> FlowModule:
        """The fitted module."""
        if self._fitted is None:
            raise RuntimeError("Flow is not fitted: call fit")
        return self._fitted

    def transform(self, x: Tensor) -> Tensor:
        """Latents of rows ``(N, D)``."""
        return self.fitted.embed(x)
