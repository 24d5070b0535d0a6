"""Torchmetrics of the tasks: values of the functions, by batches, processes and in a Trainer."""

import math
import sys
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, distributed
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchmetrics import Metric, MetricCollection

from flowbert.metrics import Alignment, MeanCosine, STSSpearman, Uniformity
from flowbert.tasks import STS, alignment, load_task, mean_cosine, uniformity

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
FORKS = pytest.mark.skipif(sys.platform != "linux", reason="forks")
DIM, COUNT = 5, 90
METRICS: dict[str, Callable[[], Metric]] = {
    "alignment": Alignment,
    "mean_cosine": lambda: MeanCosine(DIM),
    "uniformity": lambda: Uniformity(DIM),
    "all": lambda: STSSpearman("all"),
    "mean": lambda: STSSpearman("mean"),
    "wmean": lambda: STSSpearman("wmean"),
}


def drawn() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors of pairs, gold scores with ties, and three subsets that are not in order."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(COUNT, DIM)) + 0.3, dtype=torch.float32)
    y = x + torch.tensor(rng.normal(size=(COUNT, DIM)), dtype=torch.float32)
    gold = torch.tensor(rng.integers(0, 6, COUNT), dtype=torch.float32)
    return x, y, gold, torch.tensor(rng.integers(0, 3, COUNT))


def arguments(name: str, rows: slice = slice(None)) -> tuple[Tensor, ...]:
    """What update takes of some of the pairs."""
    x, y, gold, subset_of = (each[rows] for each in drawn())
    if name == "alignment":
        return x, y
    if name in ("all", "mean", "wmean"):
        return torch.cosine_similarity(x, y), gold, subset_of
    return (x,)


def expected(name: str) -> float:
    """The value of the function that tasks measure with."""
    x, y, *_ = drawn()
    if name == "alignment":
        return alignment(x, y)
    if name in ("uniformity", "mean_cosine"):
        return {"uniformity": uniformity, "mean_cosine": mean_cosine}[name](x)
    cosines, gold, subset_of = (each.double().numpy() for each in arguments(name))
    correlations, sizes = [], []
    for subset in range(3):
        part = subset_of == subset
        correlations.append(STSSpearman("all"))
        correlations[-1].update(*map(torch.from_numpy, (cosines[part], gold[part])))
        sizes.append(int(part.sum()))
    values = [float(each.compute()) for each in correlations]
    if name == "mean":
        return float(np.mean(values))
    if name == "wmean":
        return float(np.average(values, weights=sizes))
    whole = np.corrcoef(*map(ranks, (cosines, gold)))
    return float(whole[0, 1])


def ranks(values: Any) -> Any:
    """Mid-ranks by counting."""
    below = (values[:, None] > values).sum(axis=1)
    return below + ((values[:, None] == values).sum(axis=1) + 1) / 2


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """OpenMP's threads do not survive a fork."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=METRICS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


BATCHES = (slice(0, 40), slice(40, 41), slice(41, 41), slice(41, COUNT))


def test_a_metric_is_the_function_of_all_batches(name: str) -> None:
    metric = METRICS[name]()
    metric.update(*arguments(name))
    whole = metric.compute()
    assert whole.dtype == torch.float64
    assert whole.shape == ()
    exact = name in ("alignment", "mean_cosine", "uniformity")
    assert float(whole) == pytest.approx(expected(name), abs=0 if exact else 1e-12)
    metric.reset()
    for rows in BATCHES:
        metric.update(*arguments(name, rows))
    # Another order of sums.
    assert float(metric.compute()) == pytest.approx(float(whole), abs=1e-12)


def test_forward_gives_the_batch_and_keeps_the_rest(name: str) -> None:
    metric, first = METRICS[name](), METRICS[name]()
    first.update(*arguments(name, BATCHES[0]))
    assert torch.equal(metric(*arguments(name, BATCHES[0])), first.compute())
    metric(*arguments(name, BATCHES[1]))
    metric(*arguments(name, BATCHES[3]))
    assert float(metric.compute()) == pytest.approx(expected(name), abs=1e-12)


def test_states_merge_and_reset(name: str) -> None:
    metric, other = METRICS[name](), METRICS[name]()
    metric.update(*arguments(name, BATCHES[0]))
    for rows in BATCHES[1:]:
        other.update(*arguments(name, rows))
    metric.merge_state(other)
    assert float(metric.compute()) == pytest.approx(expected(name), abs=1e-12)
    metric.reset()
    metric.update(*arguments(name, BATCHES[0]))
    other.reset()
    other.update(*arguments(name, BATCHES[0]))
    assert torch.equal(metric.compute(), other.compute())


def test_precision_survives_a_module_of_half_precision(name: str) -> None:
    metric = METRICS[name]().to(torch.bfloat16)
    metric.update(*arguments(name))
    assert float(metric.compute()) == pytest.approx(expected(name), abs=1e-12)


@pytest.mark.parametrize("kind", ["nothing", "one", "not finite"])
def test_what_is_undefined_is_nan(name: str, kind: str) -> None:
    metric = METRICS[name]()
    rows = slice(0, {"nothing": 0, "one": 1}.get(kind, COUNT))
    given = [each.clone() for each in arguments(name, rows)]
    if kind == "not finite":
        given[0][7] = math.nan
    metric.update(*given)
    value = float(metric.compute())
    assert math.isnan(value) != (name == "alignment" and kind == "one")


def test_a_uniformity_may_be_that_of_a_sample() -> None:
    metric = Uniformity(DIM, limit=20)
    for rows in BATCHES:
        metric.update(*arguments("uniformity", rows))
    assert float(metric.compute()) == uniformity(drawn()[0], limit=20)


def test_constant_similarities_have_no_correlation() -> None:
    metric = STSSpearman()
    metric.update(torch.full((4,), 0.5), torch.arange(4.0))
    assert math.isnan(float(metric.compute()))


def test_wrong_shapes_and_names_are_told() -> None:
    with pytest.raises(ValueError, match=r"\(3, 4\); expected \(N, 5\)"):
        MeanCosine(DIM).update(torch.ones(3, 4))
    with pytest.raises(ValueError, match=r"\(3,\), \(4,\)"):
        STSSpearman().update(torch.ones(3), torch.ones(4))
    with pytest.raises(ValueError, match="received 'max'; expected all, mean, wmean"):
        STSSpearman("max")


def test_scores_are_those_of_a_task() -> None:
    task = load_task("SAMPLE")
    assert isinstance(task, STS)
    vectors = torch.randn(
        len(task.sentences), DIM, generator=torch.Generator().manual_seed(0)
    )
    record = task.measure(vectors)
    positive = task.gold > task.positive_score
    first, second = vectors[task.left], vectors[task.right]
    spearman, measures = STSSpearman(), Alignment()
    spearman.update(torch.from_numpy(record.items), torch.from_numpy(task.gold))
    measures.update(first[positive], second[positive])
    assert float(spearman.compute()) == record.scores["spearman", "all"]
    assert float(measures.compute()) == record.scores["alignment", "all"]


def in_a_process(rank: int, folder: Path) -> None:
    """The second process has most pairs, the third none."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=3
    )
    values = {}
    for name, make in METRICS.items():
        metric = make()
        for rows in ((BATCHES[0],), BATCHES[1:], ())[rank]:
            metric.update(*arguments(name, rows))
        values[name] = metric.compute()
    torch.save(values, folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:.*compute.*before.*update")
@FORKS
def test_processes_have_the_values_of_one(tmp_path: Path) -> None:
    context = get_context("fork")
    processes = [
        context.Process(target=in_a_process, args=(rank, tmp_path)) for rank in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    for rank in range(3):
        values = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, value in values.items():
            assert float(value) == pytest.approx(expected(name), abs=1e-12), name


class Module(LightningModule):
    """Anybody's module: it logs metrics of its own validation."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(DIM, DIM)
        self.spearman = MetricCollection(
            {name: STSSpearman(name) for name in ("all", "mean", "wmean")}
        )
        self.alignment = Alignment()
        self.space = MetricCollection([MeanCosine(DIM), Uniformity(DIM)])

    def validation_step(self, batch: tuple[Tensor, ...]) -> None:
        x, y, gold, subset_of = batch
        self.spearman.update(torch.cosine_similarity(x, y), gold, subset_of)
        self.alignment.update(x, y)
        self.space.update(x)
        self.log_dict(self.spearman)
        self.log("alignment", self.alignment)
        self.log_dict(self.space)

    def val_dataloader(self) -> Any:
        """Of two processes one has most pairs."""
        rows = range(COUNT)
        if self.trainer.world_size == 2:
            rows = (range(20), range(20, COUNT))[self.trainer.global_rank]
        return DataLoader(Subset(TensorDataset(*drawn()), rows), batch_size=32)


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=FORKS)])
def test_they_are_logged_by_a_trainer(devices: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"strategy": "ddp_fork"} if devices == 2 else {}
    trainer = Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        devices=devices,
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    (logged,) = trainer.validate(Module(), verbose=False)
    assert len(logged) == 6
    for name, value in logged.items():
        known = {"MeanCosine": "mean_cosine", "Uniformity": "uniformity"}
        assert value == pytest.approx(expected(known.get(name, name)), abs=1e-12), name
