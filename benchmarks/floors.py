"""What three rows cost at least: the same library calls alone, at the shapes of the row.

    python -m benchmarks.floors

One thread, CPU time, the best of several rounds in turn. The calls of the flow with ``lu`` are the
products of all matrices and the optimizer; those of the bootstrap draw the resamples and gather
their ranks; those of all pairs (uniformity) are the products and exponentials of all tiles.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.flow_step import BATCH, DIM, make_flow, make_step
from benchmarks.harness import Setting
from flowbert.seeding import Stream
from flowbert.tasks import uniformity
from flowbert.tasks.measures import ResampledSpearman, draw_counts
from flowbert.training.optim import BertAdam

ROUNDS = 10
REPEATS = 5  # in a row: the caches hold the numbers of the call before
PAIRS, RESAMPLES = 1379, 47  # a block of flowbert.tasks.base
VECTORS, SIZE = 4096, 384
ROWS, COLUMNS = 256, 512  # a tile of flowbert.tasks.uniformity

Calls = Mapping[str, Callable[[], object]]


def flow_step() -> Calls:
    """The step with ``lu``, that with ``reverse``, and the parts of the former."""
    x = torch.randn(BATCH, DIM)
    flow = make_flow("lu")
    parameters = list(flow.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    matrices = [p.detach() for p in parameters if p.ndim == 2]
    return {
        "ours": make_step(make_flow("lu"), x),
        "the step with reverse": make_step(make_flow("reverse"), x),
        "products": partial(_products, matrices),
        "optimizer": BertAdam(parameters, lr=1e-4).step,
        "clipping": partial(nn.utils.clip_grad_norm_, parameters, 1.0),
    }


def _products(matrices: list[Tensor]) -> None:
    """Product, gradient of the input and of the weight; a square matrix holds L and U."""
    for matrix in matrices:
        rows, columns = matrix.shape
        x, y = torch.ones(BATCH, rows), torch.ones(BATCH, columns)
        for _ in range(2 if rows == columns and rows > BATCH else 1):
            _ = x @ matrix, y @ matrix.T, x.T @ y


def bootstrap() -> Calls:
    """A block of resamples: our scores, and numpy's part of the work."""
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, PAIRS) * 4) / 4
    methods = [gold + rng.normal(0, 2, PAIRS) for _ in range(2)]
    score = ResampledSpearman(methods, gold)
    units = rng.integers(0, PAIRS, (RESAMPLES, PAIRS))
    shifted = (units + np.arange(RESAMPLES)[:, None] * PAIRS).ravel()
    counts = np.bincount(shifted).astype(np.int32)
    counts = np.resize(counts, (RESAMPLES, PAIRS))
    order = rng.permutation(PAIRS)

    def ranks() -> None:
        for _ in range(3):
            drawn = np.take(counts, order, axis=1)
            np.take(np.cumsum(drawn, axis=1, dtype=np.int32), order, axis=1)

    return {
        "ours": lambda: score(draw_counts([PAIRS], RESAMPLES, Stream(0, "floors"))),
        "random numbers": lambda: rng.integers(0, PAIRS, (RESAMPLES, PAIRS)),
        "counts": lambda: np.bincount(shifted, minlength=RESAMPLES * PAIRS),
        "gathers and sums": ranks,
    }


def pairs() -> Calls:
    """All pairs of vectors, by tiles as in our function."""
    x = torch.randn(VECTORS, SIZE, dtype=torch.float64)
    kernel = torch.zeros(ROWS, COLUMNS, dtype=torch.float64)
    starts = [
        (row, column)
        for row in range(0, VECTORS, ROWS)
        for column in range(row, VECTORS - COLUMNS + 1, COLUMNS)
    ]

    def products() -> None:
        for row, column in starts:
            others = x[column : column + COLUMNS].T
            torch.mm(x[row : row + ROWS], others, out=kernel)

    def exponentials() -> None:
        for _ in starts:
            torch.exp(kernel, out=kernel.zero_())

    return {
        "ours": lambda: uniformity(x),
        "products": products,
        "exponentials": exponentials,
    }


def main() -> None:
    """Measure and print milliseconds."""
    torch.set_num_threads(1)
    for measured in (flow_step, bootstrap, pairs):
        calls = {name: partial(_repeat, call) for name, call in measured().items()}
        best = Setting(clock="cpu").seconds(calls, ROUNDS)
        for name, seconds in best.items():
            milliseconds = 1000 * seconds / REPEATS
            print(f"{measured.__name__:10} {name:22} {milliseconds:8.2f} ms")


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(REPEATS):
        call()


if __name__ == "__main__":
    main()
