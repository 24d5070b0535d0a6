"""What follows the pooling of a sentence-transformers encoder: Dense layers and the scaling to length 1."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from flowbert.errors import UserError
from flowbert.io.digest import digest_json, digest_tensors

NONE, DENSE, ALL = MODULES = ("none", "dense", "all")
"""What to apply: nothing, everything up to the last Dense, or all, which scales vectors to length 1 as well."""

_ACTIVATIONS = {name: getattr(nn, name) for name in ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")}


class Normalize(nn.Module):
    """Vectors of length 1."""

    config = ("normalize",)

    def forward(self, x: Tensor) -> Tensor:
        """Scale rows ``(B, k)``."""
        return nn.functional.normalize(x, dim=-1)


class Dense(nn.Module):
    r"""A linear layer and an activation, :math:`y = \sigma(x W^T + b)`, plus x itself or a linear map of it if asked.

    Args:
        in_features: Size of the input.
        out_features: Size of the output.
        bias: Whether there is b.
        activation: Name of the activation, a class of ``torch.nn``.
        use_residual: Whether the input is added.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str = "Tanh",
        use_residual: bool = False,
    ) -> None:
        super().__init__()
        self.config = ("dense", activation, use_residual)
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation = _ACTIVATIONS[activation]()
        self.use_residual = use_residual
        self.residual = (
            nn.Linear(in_features, out_features, bias=False) if use_residual and in_features != out_features else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map rows ``(B, in_features)`` to ``(B, out_features)``."""
        y: Tensor = self.activation(self.linear(x))
        if not self.use_residual:
            return y
        return y + (x if self.residual is None else self.residual(x))

    @classmethod
    def read(cls, folder: Path, content: dict[str, Any]) -> "Dense":
        """A module of sentence-transformers from its folder.

        Args:
            folder: The folder.
            content: Its ``config.json``.

        Raises:
            UserError: If it is one that is not known here, or damaged.
        """
        path = str(content.get("activation_function", "torch.nn.modules.activation.Tanh"))
        activation = path.rpartition(".")[2]
        if not path.startswith("torch.nn.") or activation not in _ACTIVATIONS:
            raise UserError(f"{folder}: activation {path!r}; allowed: {', '.join(_ACTIVATIONS)} of torch.nn")
        try:
            names = ("in_features", "out_features", "bias", "use_residual")
            made = cls(activation=activation, **{name: content[name] for name in names if name in content})
            made.load_state_dict(_weights(folder))
        # What is missing, not JSON of the right kind, no tensors, or tensors of other shapes.
        except Exception as error:
            raise UserError(f"{folder}: the Dense module cannot be read: {' '.join(str(error).split())}") from error
        return made


class AfterPooling(nn.Sequential):
    """Modules that a pooled vector goes through, in order; none leaves it as it is.

    Args:
        parts: Modules of this file.
        pooling: What the Dense modules among them were trained on: this pooling of the last layer.
    """

    def __init__(self, parts: Sequence[Dense | Normalize] = (), pooling: str = "mean") -> None:
        super().__init__(*parts)
        dense = [part for part in parts if isinstance(part, Dense)]
        self.word = NONE if not parts else ALL if isinstance(parts[-1], Normalize) else DENSE
        self._trained_on = pooling if dense else None
        self.out_features = dense[-1].linear.out_features if dense else None

    def check(self, layers: Sequence[int], pooling: str, num_layers: int) -> None:
        """Refuse vectors of another kind than the Dense modules were trained on.

        Raises:
            UserError: If they are.
        """
        if self._trained_on is not None and (tuple(layers), pooling) != ((num_layers,), self._trained_on):
            raise UserError(
                f"layers, pooling: received {list(layers)}, {pooling}; allowed with the encoder's Dense modules: "
                f"last ({num_layers}), {self._trained_on}; or modules none"
            )

    def key(self) -> dict[str, str]:
        """Identity as JSON values; nothing without modules."""
        if not len(self):
            return {}
        structure = [part.config for part in self]
        return {"modules": self.word, "after_pooling": digest_json([structure, digest_tensors(self.state_dict())])}


def _weights(folder: Path) -> dict[str, Tensor]:
    safe = folder / "model.safetensors"
    if safe.is_file():
        return load_file(safe)
    weights: dict[str, Tensor] = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    return weights
