"""Glow on vectors: steps of actnorm, mixing and coupling on several levels with split priors."""

import math
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from flowbert.arrays import BLOCK_ROWS
from flowbert.errors import UserError, check_choice
from flowbert.flows.bijection import Bijection, Composition
from flowbert.flows.coupling import COUPLINGS
from flowbert.flows.data_initialized import ActNorm, DataInitialized, WhiteningLayer
from flowbert.flows.mixing import MIXING_INITS, MIXINGS
from flowbert.flows.prior import PRIORS, Prior
from flowbert.numbers import Count, check_limits
from flowbert.options import GlowOptions
from flowbert.seeding import Stream

INITS = ("actnorm", "whitening")
"""What data initialize: the actnorms, or a whitening layer in front and then the actnorms."""

TensorOrFloat = TypeVar("TensorOrFloat", Tensor, float)


def bits_per_dim(nats: TensorOrFloat, dim: int) -> TensorOrFloat:
    r"""Bits per dimension: :math:`\mathrm{nats} / (D \ln 2)`.

    Example:
        >>> round(bits_per_dim(math.log(2) * 6, dim=3), 6)
        2.0
    """
    return nats / (dim * math.log(2))


def check_glow(dim: Count, options: GlowOptions) -> None:
    """Check the options of a flow on vectors of size ``dim``; builds one coupling and the prior.

    Raises:
        UserError: If D cannot be halved so often, a size is below 1, or a name is unknown.
    """
    check_limits(check_glow, {"dim": dim})
    check_limits(GlowOptions, vars(options))
    most = max(1, (dim - 1).bit_length())
    if options.levels > most:
        expected = f"1 to {most} for vectors of size {dim}"
        raise UserError(argument="levels", received=options.levels, expected=expected)
    check_choice("init", options.init, INITS)
    check_choice("mixing_init", options.mixing_init, MIXING_INITS)
    MIXINGS.parse(options.mixing)
    COUPLINGS.make(options.coupling, dim=max(2, dim), hidden_dim=options.width, seed=0)
    PRIORS.make(options.prior, dim=dim)


class Glow(Bijection):
    r"""Glow on vectors: :math:`\log p(x) = \log p(z) + \log|\det dz/dx|`, by default z ~ N(0, I).

    A level is ``depth`` steps of actnorm, mixing and coupling. After every level but the last, the
    second half of the vector becomes part of the latent and the first half enters the next level.
    The latent is [part of level 1, part of level 2, ..., rest]. If the size is odd, the first half
    has one more; a single dimension has no coupling. Autocast does not change the precision.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018).
        https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.
        seed: Seed of everything that is initialized at random.
        **options: Fields of :class:`~flowbert.flows.GlowOptions`.

    Attributes:
        config: The arguments, as JSON values.
        front: The layers before the levels, a :class:`Composition` of at most one.
        levels: A :class:`Composition` of the steps of each level.
        initialized: Whether :meth:`initialize` was called, ``()``, part of the state.

    Shapes:
        x, z: ``(B, D)``; log_det, log_prob: ``(B,)``, nats.  B: batch, D: embedding size.

    Raises:
        UserError: If D cannot be halved so often, a size is below 1, or a name is unknown.

    Example:
        >>> x = torch.randn(64, 12, generator=torch.Generator().manual_seed(0)) * 3 + 5
        >>> flow = Glow(12, levels=2)
        >>> flow.initialize(x)
        >>> z, log_det = flow(x)
        >>> z.shape, log_det.shape, bool(flow.log_prob(x).mean() > -40)
        (torch.Size([64, 12]), torch.Size([64]), True)
        >>> torch.allclose(flow.inverse(z)[0], x, atol=1e-4)
        True
    """

    initialized: Tensor

    def __init__(self, dim: Count, seed: int = 0, **options: Any) -> None:
        super().__init__()
        chosen = GlowOptions(**options)
        check_glow(dim, chosen)
        levels, depth = chosen.levels, chosen.depth
        self.config = {"dim": dim, "seed": seed, **chosen.glow()}
        self.dim = dim
        self.register_buffer("initialized", torch.zeros(()))
        whitens = chosen.init == "whitening"
        self._prior: Prior = PRIORS.make(chosen.prior, dim=dim)
        self.front = Composition({"whitening": WhiteningLayer(dim)} if whitens else {})
        self.levels = nn.ModuleList()
        seeds = (
            Stream(seed, "flow", batch=number).number
            for number in range(2 * levels * depth)
        )
        size = dim  # of the vectors that enter a level
        for _ in range(levels):
            steps: dict[str, Bijection] = {}
            for number in range(depth):
                layers: dict[str, Bijection] = {"actnorm": ActNorm(size)}
                layers["mixing"] = MIXINGS.make(
                    chosen.mixing, dim=size, init=chosen.mixing_init, seed=next(seeds)
                )
                if size > 1:
                    layers["coupling"] = COUPLINGS.make(
                        chosen.coupling,
                        dim=size,
                        hidden_dim=chosen.width,
                        seed=next(seeds),
                    )
                steps[f"step_{number}"] = Composition(layers)
            self.levels.append(Composition(steps))
            size -= size // 2

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters: float32 or float64."""
        return next(self.parameters()).dtype

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map embeddings to latents."""
        leaving: list[Tensor] = []
        with torch.autocast(x.device.type, enabled=False):
            x, total = self.front(x.to(self.dtype))
            for number, level in enumerate(self.levels):
                if number > 0:
                    x, half = x.chunk(2, dim=1)
                    leaving.append(half)
                x, log_det = level(x)
                total = total + log_det
            return torch.cat([*leaving, x], dim=1), total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map latents to embeddings."""
        x = z.to(self.dtype)
        halves: list[Tensor] = []
        for _ in range(len(self.levels) - 1):
            half, x = x.tensor_split([x.shape[1] // 2], dim=1)
            halves.append(half)
        with torch.autocast(z.device.type, enabled=False):
            total = x.new_zeros(x.shape[0])
            for level in reversed(self.levels):
                x, log_det = cast(Bijection, level).inverse(x)
                total = total + log_det
                if halves:
                    x = torch.cat([x, halves.pop()], dim=1)
            x, log_det = self.front.inverse(x)
        return x, total + log_det

    def log_prob(self, x: Tensor) -> Tensor:
        """Log density of embeddings ``(B, D)`` in nats, ``(B,)``."""
        z, log_det = self(x)
        nats: Tensor = self.prior_log_prob(z) + log_det
        return nats

    def prior_log_prob(self, z: Tensor) -> Tensor:
        """Log density of latents ``(B, D)`` in nats, ``(B,)``."""
        with torch.autocast(z.device.type, enabled=False):
            nats: Tensor = self._prior.log_prob(z)
        return nats

    @torch.no_grad()
    def latents(self, x: Tensor) -> Tensor:
        """Latents of any number of embeddings, computed in blocks.

        Args:
            x: Embeddings, ``(N, D)``, on any device.

        Returns:
            Latents, ``(N, D)``, float32, on the device of ``x``.
        """
        device = next(self.parameters()).device
        blocks = [self(block.to(device))[0] for block in torch.split(x, BLOCK_ROWS)]
        return torch.cat([block.to(x.device, torch.float32) for block in blocks])

    @torch.no_grad()
    def initialize(
        self, x: Tensor, moments: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Initialize every layer that depends on data; a second call initializes again.

        Args:
            x: Embeddings, ``(N, D)``, N at least 2.
            moments: Mean ``(D,)`` and covariance ``(D, D)`` for a whitening layer, float64 on the
                CPU; None for the moments of ``x``.

        Raises:
            UserError: If there are fewer than 2, or one is not finite.
        """
        bad = int((~torch.isfinite(x)).any(1).sum())
        if len(x) < 2 or bad:
            raise UserError(
                f"flow: received {len(x)} embedding(s) to initialize with, {bad} with NaN or "
                "infinity; expected at least 2, all finite"
            )
        layers = [x for x in self.modules() if isinstance(x, DataInitialized)]
        for layer in layers:
            if moments is not None and isinstance(layer, WhiteningLayer):
                layer.set_moments(*moments)
            else:
                layer.initializing = True
        try:
            self(x)
        finally:
            for layer in layers:
                layer.initializing = False
        self.initialized.fill_(True)
