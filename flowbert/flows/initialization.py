"""Layers whose first values are those of the data."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows.bijection import Bijection


class DataInitialized(Bijection):
    """Base of the bijections that are initialized with the first batch in training mode.

    In eval mode a layer that was not initialized is what its constructor made, the identity. The
    buffer ``initialized`` is part of the state, so that a loaded layer is not initialized again.

    Raises:
        UserError: If the first batch has fewer than 2 rows or holds NaN or infinity.
    """

    initialized: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.zeros(()))
        self._known_initialized = False

    @abstractmethod
    def initialize_from(self, x: Tensor) -> None:
        """Set what depends on the data from a batch ``(B, D)``."""

    def restart(self) -> None:
        """Let the next batch in training mode initialize the layer anew."""
        self.initialized.fill_(False)
        self._known_initialized = False

    @torch.no_grad()
    def initialize_once(self, x: Tensor) -> None:
        """Initialize with a batch in training mode, unless that was done before."""
        if not self.training or self._is_initialized():
            return
        if x.shape[0] < 2 or not torch.isfinite(x).all():
            raise UserError(
                f"flow: received a first batch of {x.shape[0]} row(s); expected at least 2, "
                "without NaN or infinity"
            )
        self.initialize_from(x)
        self.initialized.fill_(True)
        self._known_initialized = True

    def _is_initialized(self) -> bool:
        # Reading a buffer on a GPU waits for the device: once is enough.
        if not self._known_initialized:
            self._known_initialized = bool(self.initialized)
        return self._known_initialized

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._known_initialized = False
        super()._load_from_state_dict(*args, **kwargs)
