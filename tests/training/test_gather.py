"""Two real processes against one on the joined batch."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from flowbert.losses.info_nce import InfoNCE
from flowbert.training.gather import gather_rows

BATCH, DIM = 6, 5


def _network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(DIM, 8), nn.Tanh(), nn.Linear(8, DIM))


def _inputs() -> Tensor:
    return torch.randn(BATCH, 3, DIM, generator=torch.Generator().manual_seed(4))


def _step(network: nn.Module, x: Tensor, hard: bool) -> dict[str, Tensor]:
    h = gather_rows(network(x))
    loss = InfoNCE(0.05, 0.7)(h[:, 0], h[:, 1], h[:, 2] if hard else None)
    loss.backward()
    names = [(name.removeprefix("module."), p.grad) for name, p in network.named_parameters()]
    return {"loss": loss.detach()} | {name: grad for name, grad in names if grad is not None}


def _process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for hard in (False, True):
        result = _step(DistributedDataParallel(_network()), _inputs()[rank::2], hard)
        torch.save(result, f"{folder}/{rank}-{hard}.pt")
    distributed.barrier()  # a group that the other still uses is not to be taken down
    distributed.destroy_process_group()


@pytest.mark.alone
def test_two_processes_equal_one_on_the_joined_batch(tmp_path: Path) -> None:
    multiprocessing.spawn(_process, (str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call, attr-defined]
    for hard in (False, True):
        expected = _step(_network(), _inputs(), hard)
        for rank in range(2):
            found = torch.load(tmp_path / f"{rank}-{hard}.pt", weights_only=True)
            assert found.keys() == expected.keys()
            for name in expected:
                torch.testing.assert_close(found[name], expected[name], atol=1e-6, rtol=1e-5)


def test_one_process_gets_its_rows_back() -> None:
    rows = torch.ones(2, 3)
    assert gather_rows(rows) is rows
