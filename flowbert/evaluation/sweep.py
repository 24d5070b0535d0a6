"""Which layers to average: chosen on the development splits, beside what the test splits would have chosen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.results import Row

_setting = attrgetter("encoder", "pooling", "method", "corpus", "revision", "dtype", "max_length", "code")


@dataclass(frozen=True)
class LayerChoice:
    """Best layers of one method; figures are averages over tasks and seeds, in [-1, 1].

    Attributes:
        encoder: The encoder.
        pooling: Its token pooling.
        method: The method.
        corpus: What it was fitted on.
        by_dev: Layers with the highest average over the development splits: an honest choice.
        dev: That average.
        test: Average of these layers over the test splits.
        by_test: Layers with the highest average over the test splits: what no honest selection can promise.
        test_best: That average.
        settings: Number of layer settings compared.
        dev_tasks: Tasks with a development split, on which the choice rests.
        left_out: Layers that lack a figure, and tasks where no layers have one, in lines.
    """

    encoder: str
    pooling: str
    method: str
    corpus: str
    by_dev: str
    dev: float
    test: float
    by_test: str
    test_best: float
    settings: int
    dev_tasks: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def text(self) -> str:
        """The choice in one line, figures x 100."""
        dev, test, best = (f"{100 * figure:.2f}" for figure in (self.dev, self.test, self.test_best))
        fitted = "" if self.corpus == "none" else f" ({self.corpus})"
        compared = f"{self.settings} settings of {self.encoder}, {self.pooling}"
        left_out = "".join(f"; {line}" for line in self.left_out)
        return (
            f"{self.method}{fitted}: best by dev ({', '.join(self.dev_tasks)}) {self.by_dev}: dev {dev}, test {test}; "
            f"best by test {self.by_test}: test {best} (of {compared}){left_out}"
        )


def best_layers(rows: Sequence[Row], aggregation: str = "wmean") -> list[LayerChoice]:
    """Choose layers for each encoder, pooling, method and corpus that has rows of several layer settings.

    Rows of the split ``dev`` choose, rows of the split ``test`` report; a method without both is left out. Tasks
    without a development split (STS12 to STS16) count in the test average only. Layers are compared on the same tasks
    and seeds: without a finite figure on each of them they are left out.

    References:
        WhiteningBERT: An Easy Unsupervised Sentence Embedding Approach (Huang et al., 2021).
        https://arxiv.org/abs/2104.01767
    """
    chosen = [row for row in rows if row.metric == "spearman" and row.aggregation == aggregation]
    found = []
    for setting in dict.fromkeys(map(_setting, chosen)):
        mine = [row for row in chosen if _setting(row) == setting]
        (dev, dev_tasks, lines), (test, _, more) = (_averages(mine, split) for split in ("dev", "test"))
        both = [layers for layers in test if layers in dev]
        if len(both) < 2:
            continue
        by_dev, by_test = max(both, key=dev.__getitem__), max(both, key=test.__getitem__)
        encoder, pooling, method, corpus, *_ = setting
        found.append(
            LayerChoice(
                encoder=encoder,
                pooling=pooling,
                method=method,
                corpus=corpus,
                by_dev=by_dev,
                dev=dev[by_dev],
                test=test[by_dev],
                by_test=by_test,
                test_best=test[by_test],
                settings=len(both),
                dev_tasks=dev_tasks,
                left_out=(*lines, *more),
            )
        )
    return found


def _averages(rows: Sequence[Row], split: str) -> tuple[dict[str, float], tuple[str, ...], list[str]]:
    """Layers -> average over tasks of the average over seeds; the tasks; what is left out, in lines."""
    figures: dict[str, dict[tuple[str, int | None], float]] = {}
    for row in rows:
        if row.split == split:
            figures.setdefault(row.layers, {})[row.task, row.seed] = row.spearman
    columns = list(dict.fromkeys(column for mine in figures.values() for column in mine))
    tasks = list(dict.fromkeys(task for task, _ in columns))
    seeds = {task: [seed for name, seed in columns if name == task] for task in tasks}
    by_task = {
        layers: {task: fmean(mine.get((task, seed), math.nan) for seed in seeds[task]) for task in tasks}
        for layers, mine in figures.items()
    }
    found = Comparable.of(by_task, tasks)
    averages = {layers: fmean(by_task[layers][task] for task in found.columns) for layers in found.rows}
    return averages, found.columns, found.told(f"layers, {split}")
