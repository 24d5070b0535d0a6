"""Glow on vectors: steps of actnorm, mixing and coupling on several levels with split priors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from flowbert.errors import UserError, choices
from flowbert.flows.actnorm import ActNorm
from flowbert.flows.bijection import Bijection, Chain
from flowbert.flows.coupling import COUPLINGS
from flowbert.flows.mixing import MIXINGS
from flowbert.losses.nll import nll
from flowbert.seeding import Stream

_BLOCK = 8192  # embeddings per forward pass: bounds the activations


class Glow(Bijection):
    r"""Glow on vectors, from embeddings to a standard normal: :math:`\log p(x) = \log N(z; 0, I) + \log|\det dz/dx|`.

    A level is ``depth`` steps of actnorm, mixing and coupling. After every level but the last the second half of the
    vector leaves as latent and the first half goes on; the latent is [what left level 1, level 2, ..., what remains].
    Of an odd size the first half has one more; a single dimension has no coupling.
    An autocast around a call plays no role, and embeddings in half precision are computed with in float32.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020). https://arxiv.org/abs/2011.05864
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018). https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.
        levels: Number of levels; D dimensions have room for :func:`most_levels`.
        depth: Steps per level.
        width: Width of the networks inside the couplings.
        mixing: ``lu`` (learned), ``reverse`` (the official configuration) or ``random``.
        coupling: ``additive`` or ``affine``.
        mixing_init: Start of ``lu``: ``identity``, ``reverse``, ``random`` or ``rotation``. The others ignore it.
        seed: Seed of everything random in the start; no global random state is read or changed.

    Shapes:
        x, z: ``(B, D)``; log_det, nll: ``(B,)``, nats.  B: batch, D: embedding size.

    Raises:
        UserError: If D has no room for the levels, a size is below 1, or a name is unknown.

    Example:
        >>> import torch
        >>> from flowbert.flows import Glow
        >>> x = torch.randn(64, 12, generator=torch.Generator().manual_seed(0)) * 3 + 5
        >>> flow = Glow(12, levels=2)
        >>> flow.initialize(x)
        >>> z, log_det = flow(x)
        >>> z.shape, log_det.shape, bool(flow.nll(x).mean() < 40)
        (torch.Size([64, 12]), torch.Size([64]), True)
        >>> torch.allclose(flow.inverse(z)[0], x, atol=1e-4)
        True
    """

    def __init__(
        self,
        dim: int,
        levels: int = 2,
        depth: int = 3,
        width: int = 32,
        mixing: str = "lu",
        coupling: str = "additive",
        mixing_init: str = "identity",
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = {"dim": dim, "levels": levels, "depth": depth, "width": width}
        _check_sizes(**sizes)
        for name, received, known in (("mixing", mixing, MIXINGS), ("coupling", coupling, COUPLINGS)):
            if received not in known:
                raise UserError(f"{name}: received {received!r}; {choices(known, received)}")
        names = {"mixing": mixing, "coupling": coupling, "mixing_init": mixing_init}
        self.config: dict[str, Any] = {**sizes, **names, "seed": seed}
        self.dim = dim
        seeds = (Stream(seed, "flow", batch=number).number for number in range(2 * levels * depth))

        def step(size: int) -> Chain:
            layers: dict[str, Bijection] = {"actnorm": ActNorm(size)}
            layers["mixing"] = MIXINGS[mixing](size, mixing_init, next(seeds))
            if size > 1:
                layers["coupling"] = COUPLINGS[coupling](size, width, next(seeds))
            return Chain(layers)

        self._sizes = [-(-dim >> level) for level in range(levels)]  # of each level: rounded up
        self.levels = nn.ModuleList(Chain({f"step_{k}": step(size) for k in range(depth)}) for size in self._sizes)

    @property
    def dtype(self) -> torch.dtype:
        """The flow computes in float32, or in float64 where it was converted; never in less."""
        return next(self.parameters()).dtype

    @property
    def initialized(self) -> bool:
        """Whether every actnorm has had its data-dependent start."""
        return all(bool(actnorm.initialized) for actnorm in self._actnorms())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map embeddings to latents."""
        self._check_shape(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.through_levels(x.to(self.dtype))

    def through_levels(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`forward` alone, without what prepares for it: all that an exporter of graphs can trace."""
        leaving: list[Tensor] = []
        total = x.new_zeros(x.shape[0])
        for level in self.levels:
            if level is not self.levels[0]:
                x, out = x.chunk(2, dim=1)
                leaving.append(out)
            x, log_det = level(x)
            total = total + log_det
        return torch.cat([*leaving, x], dim=1), total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map latents to embeddings."""
        self._check_shape(z)
        left = [size - following for size, following in pairwise(self._sizes)]
        with torch.autocast(z.device.type, enabled=False):
            *leaving, x = torch.split(z.to(self.dtype), [*left, self._sizes[-1]], dim=1)
            total = x.new_zeros(x.shape[0])
            for level in reversed(self.levels):
                x, log_det = cast(Bijection, level).inverse(x)
                total = total + log_det
                if leaving:
                    x = torch.cat([x, leaving.pop()], dim=1)
            return x, total

    @torch.no_grad()
    def latents(self, x: Tensor) -> Tensor:
        """Latents of any number of embeddings ``(N, D)``, in blocks: ``(N, D)``, float32, on the device of ``x``.

        They are computed on the flow's device. A flow in training mode is in evaluation mode meanwhile.
        """
        device = next(self.parameters()).device
        with self._in_mode(training=False):
            blocks = [self(block.to(device))[0].to(x.device, torch.float32) for block in torch.split(x, _BLOCK)]
        return torch.cat(blocks)

    def nll(self, x: Tensor) -> Tensor:
        """Negative log density of embeddings ``x`` of shape ``(B, D)`` in nats, ``(B,)``."""
        return nll(*self(x))

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Set every actnorm, outer and inner, from this one batch, whether it had a start before or not.

        The same batch gives the same values, in one process or in many.

        Args:
            x: Embeddings, ``(B, D)`` with B at least 2.

        Raises:
            ValueError: If ``x`` has the wrong shape.
            UserError: If it has fewer than 2 rows, or holds or leads to NaN or infinity.
        """
        self._check_shape(x)
        _check_batch(x)
        for actnorm in self._actnorms():
            actnorm.restart()
        with self._in_mode(training=True):
            self(x)
        self.check_finite()

    @torch.no_grad()
    def check_finite(self, x: Tensor | None = None) -> None:
        """Name what is not finite: a parameter, or with a batch given the first layer whose output is not.

        Meant for the moment a loss is not finite: it costs a pass over the parameters and, with ``x``, one forward.

        Args:
            x: Embeddings, ``(B, D)``; None checks the parameters only.

        Raises:
            UserError: If a parameter, ``x`` or a layer's output holds NaN or infinity; the message names it.
        """
        for name, parameter in self.named_parameters():
            if not torch.isfinite(parameter).all():
                raise UserError(f"flow: parameter {name} is not finite; lower the learning rate or clip the gradient")
        if x is None:
            return
        _check_batch(x, rows=1)
        hooks = [
            module.register_forward_hook(partial(_check_output, name))
            for name, module in self.named_modules()
            if isinstance(module, Bijection) and not isinstance(module, (Chain, Glow))
        ]
        try:
            self(x)
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def _in_mode(self, training: bool) -> Iterator[None]:
        before = self.training
        try:
            self.train(training)
            yield
        finally:
            self.train(before)

    def _actnorms(self) -> Iterator[ActNorm]:
        return (module for module in self.modules() if isinstance(module, ActNorm))

    def _check_shape(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"flow: shape {tuple(x.shape)} received, allowed: (batch, {self.dim})")


def most_levels(dim: int) -> int:
    """Most levels of a flow on vectors of size ``dim``: each halves what the one before left, and needs two dimensions.

    Example:
        >>> [most_levels(dim) for dim in (1, 2, 3, 8, 768)]
        [1, 1, 2, 3, 10]
    """
    return max(1, (dim - 1).bit_length())


def _check_sizes(dim: int, levels: int, depth: int, width: int) -> None:
    for name, value in (("dim", dim), ("levels", levels), ("depth", depth), ("width", width)):
        if value < 1:
            raise UserError(f"flow: {name} {value} received, allowed: 1 or more")
    possible = most_levels(dim)
    if levels > possible:
        allowed = f"levels 1 to {possible} for this dim"
        raise UserError(f"flow: dim {dim} cannot be halved {levels} times (levels {levels}); allowed: {allowed}")


def _check_batch(x: Tensor, rows: int = 2) -> None:
    if x.shape[0] < rows:
        raise UserError(f"flow: batch of {x.shape[0]} row(s) received, allowed: {rows} or more")
    bad = int((~torch.isfinite(x)).any(1).sum())
    if bad:
        raise UserError(f"flow: {bad} of {x.shape[0]} embeddings hold NaN or infinity, allowed: finite values only")


def _check_output(name: str, _module: nn.Module, _inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    if not all(bool(torch.isfinite(part).all()) for part in output):
        raise UserError(f"flow: the output of {name} is not finite; lower the learning rate or clip the gradient")
