"""A training step of the flow: both passes, clipping, optimizer; no data, no Lightning.

The peer of ``reverse`` is a step of pytorch-bertflow (:mod:`benchmarks.bertflow_peer`), that of
``lu`` the same flow with nflows' LULinear.

Floor: six operations for each row and each weight of a matrix (forward, gradient of the input,
gradient of the weight; of L and U their triangles). Nine numbers are moved for each parameter: its
gradient is written, and read by the clipping and the optimizer; the parameter and two averages are
read and written.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from benchmarks.bertflow_peer import bertflow_step
from benchmarks.harness import NotMeasured, Row, Setting
from flowbert.flows import Bijection, Composition, Glow
from flowbert.training.optim import BertAdam

DIM, BATCH, LEVELS, DEPTH, WIDTH = 768, 64, 2, 3, 32
NUMBERS = 9  # moved for each parameter, four bytes each
STEPS = 10  # in a row: in a training the caches hold the numbers of the step before


def rows(setting: Setting, device: str = "cpu") -> Iterator[Row]:
    """The step with ``reverse``, and with ``lu``."""
    x = torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(0)).to(device)
    peer = bertflow_step(x, LEVELS, DEPTH, WIDTH)
    yield _row(setting, "reverse", x, "pytorch-bertflow, written anew", peer)
    if not find_spec("nflows"):
        raise NotMeasured("lu needs nflows (pip install --no-deps nflows==0.14)")
    peer = make_step(_with_nflows(make_flow("lu")).to(device), x)
    yield _row(setting, "lu", x, "nflows LULinear in our flow", peer)


def _row(
    setting: Setting, mixing: str, x: Tensor, name: str, peer: Callable[[], None]
) -> Row:
    flow = make_flow(mixing).to(x.device)
    ours = make_step(flow, x)
    ours()
    peer()
    best = setting.seconds({"ours": _repeat(ours), "peer": _repeat(peer)}, 20)
    return Row(
        f"flow step, {mixing}",
        f"D = {DIM}, batch {BATCH}, {LEVELS} x {DEPTH} steps, width {WIDTH}, {x.device.type}",
        best["ours"] / STEPS,
        best["peer"] / STEPS,
        name,
        floor(setting, flow, x.device.type),
    )


def floor(setting: Setting, flow: Glow, device: str = "cpu") -> float:
    """Floor of a step."""
    matrices = sum(p.numel() for p in flow.parameters() if p.ndim == 2)
    parameters = sum(p.numel() for p in flow.parameters())
    moved = 4.0 * NUMBERS * parameters
    return setting.floor(6.0 * BATCH * matrices, moved, device=device)


def make_flow(mixing: str) -> Glow:
    """A flow that has started, with its actnorms set."""
    sizes = {"levels": LEVELS, "depth": DEPTH, "width": WIDTH}
    flow = Glow(DIM, mixing=mixing, mixing_init="rotation", **sizes)
    flow.initialize(torch.randn(1024, DIM, generator=torch.Generator().manual_seed(1)))
    return flow


def make_step(flow: Glow, x: Tensor) -> Callable[[], None]:
    """A training step of a flow on a batch."""
    parameters = list(flow.parameters())
    optimizer = BertAdam(parameters, lr=1e-4, weight_decay=0.01)

    def step() -> None:
        (-flow.log_prob(x).mean() / DIM).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _repeat(step: Callable[[], None]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(STEPS):
            step()

    return repeat


class _NflowsLU(Bijection):
    def __init__(self, size: int) -> None:
        from nflows.transforms.lu import LULinear

        super().__init__()
        self.layer = LULinear(size)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.layer(x)
        return z, log_det

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_det = self.layer.inverse(z)
        return x, log_det


def _with_nflows(flow: Glow) -> Glow:
    for module in flow.modules():
        if isinstance(module, Composition) and hasattr(module, "mixing"):
            module.mixing = _NflowsLU(len(module.get_buffer("mixing.permutation")))
    return flow
