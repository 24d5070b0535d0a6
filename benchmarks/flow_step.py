"""A training step of the flow: both passes, clipping, optimizer; no data, no Lightning.

``reverse`` stands beside a step of pytorch-bertflow (:mod:`benchmarks.bertflow_peer`). ``lu`` stands beside the same
flow of ours whose mixing is nflows' LULinear.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from benchmarks.bertflow_peer import bertflow_step
from benchmarks.harness import Copy, NotMeasured, Product, Row, Setting, Way
from flowbert.encoders.cpu.allocation import freed_memory_kept
from flowbert.flows import Bijection, Chain, Glow
from flowbert.training.optim import BertAdam

DIM, BATCH, LEVELS, DEPTH, WIDTH = 768, 64, 2, 3, 32
PASSES = 3.0  # forward and backward, in forward passes
IN_A_ROW = 10  # steps of one way: in a training the one before leaves its numbers in the caches, not the peer


def rows(setting: Setting) -> Iterator[Row]:
    """The step with ``reverse``, and with ``lu``."""
    x = torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(0))
    for mixing in ("reverse", "lu"):
        flow = _flow(mixing)
        ways: dict[str, Way] = {"ours": _step(flow, x)}
        if mixing == "reverse":
            peer = "pytorch-bertflow, written anew"
            ways[peer] = bertflow_step(x, LEVELS, DEPTH, WIDTH)
        else:
            peer = "nflows LULinear in our flow"
            ways[peer] = _step(_with_nflows(_flow(mixing)), x)
        product, copy = Product(BATCH, DIM, DIM, torch.float32), Copy()
        for way in ways.values():
            way()
        with freed_memory_kept():  # as every fit
            in_a_row = {name: partial(_repeat, way) for name, way in ways.items()}
            best = setting.seconds({**in_a_row, "product": product, "copy": copy}, 20)
        operations, numbers = PASSES * 2 * BATCH * forward_weights(flow), sum(p.numel() for p in flow.parameters())
        arithmetic = operations * best["product"] / product.operations
        optimizer = 7 * 4 * numbers * best["copy"] / copy.bytes  # parameter, both averages: read, written; gradient
        aim = {"reverse": "3.8 ms, where it was 5.1", "lu": "18 ms, where it was 28"}
        yield Row(
            name=f"flow step, {mixing}",
            setting=f"D = {DIM}, batch {BATCH}, {LEVELS} x {DEPTH} steps, width {WIDTH}",
            ours=best["ours"] / IN_A_ROW,
            peer=best[peer] / IN_A_ROW,
            peer_name=peer,
            floor=arithmetic + optimizer,
            floor_is=f"{operations / 1e6:.0f} MFLOP and {28 * numbers / 1e6:.1f} MB of the optimizer",
            aim=aim[mixing],
            per="step",
        )


def _flow(mixing: str) -> Glow:
    flow = Glow(DIM, LEVELS, DEPTH, WIDTH, mixing=mixing, mixing_init="rotation")
    flow.initialize(torch.randn(1024, DIM, generator=torch.Generator().manual_seed(1)))
    return flow


def _step(flow: Glow, x: Tensor) -> Callable[[], None]:
    parameters = list(flow.parameters())
    optimizer = BertAdam(parameters, lr=1e-4, weight_decay=0.01)

    def step() -> None:
        (flow.nll(x).mean() / DIM).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _repeat(step: Way) -> None:
    for _ in range(IN_A_ROW):
        step()


def forward_weights(flow: Glow) -> int:
    """Multiplications of a forward pass per row: the dense layers, and of two triangles the numbers in them."""
    return sum(p.numel() for name, p in flow.named_parameters() if ".weight_" in name or name.endswith("triangles"))


class _NflowsLU(Bijection):
    """nflows' layer under our contract."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.layer(x)
        return z, log_det


def _with_nflows(flow: Glow) -> Glow:
    if not find_spec("nflows"):
        raise NotMeasured("needs nflows (pip install --no-deps nflows)")
    from nflows.transforms.lu import LULinear

    for module in flow.modules():
        if isinstance(module, Chain) and hasattr(module, "mixing"):
            size = module.get_buffer("mixing.permutation").numel()
            module.mixing = _NflowsLU(LULinear(size))
    return flow
