"""The flow on the sentences of each STS task, beside raw and whitening: mean over seeds, as the papers lay it out.

Runs ``train.py fit`` itself, once per task and seed, and prints one Markdown table; the runs stay in --runs, and those
that are finished are not repeated.

    python benchmarks/flow_target.py --encoder DIR --senteval DIR
    python benchmarks/flow_target.py --encoder DIR --senteval DIR --config configs/flow_target_paper.yaml
"""

import argparse
import statistics
from collections.abc import Iterable
from pathlib import Path

from flowbert.cli import main
from flowbert.data.sts import TASKS
from flowbert.evaluation.results import load_results
from flowbert.io.run_folder import RunFolder

ROOT = Path(__file__).parents[1]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The flow on each task's own sentences, beside raw and whitening.")
    parser.add_argument("--encoder", required=True, help="folder or hub name of a Hugging Face encoder")
    parser.add_argument("--senteval", required=True, help="folder laid out as SentEval's data/downstream")
    parser.add_argument("--config", default=str(ROOT / "configs" / "flow_target.yaml"), help="config of the fit")
    parser.add_argument("--layers", default="first_last", help="layers to average (default first_last)")
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated (default all seven)")
    parser.add_argument("--seeds", default="0,1,2", help="comma-separated (default 0,1,2)")
    parser.add_argument("--aggregation", default="wmean", help="all, mean or wmean (default wmean)")
    parser.add_argument("--runs", default="runs/benchmark", help="folder of the runs (default runs/benchmark)")
    return parser.parse_args()


def fit(arguments: argparse.Namespace, task: str, seed: str) -> Path:
    """Fit one task with one seed, unless that is done; the results file."""
    run = Path(arguments.runs) / Path(arguments.config).stem / f"{task}-{seed}"
    results = RunFolder(run).results
    if not results.exists():
        options = {
            "--config": arguments.config,
            "--encoder.path": arguments.encoder,
            "--encoder.layers": arguments.layers,
            "--tasks": task,
            "--senteval": arguments.senteval,
            "--seed": seed,
            "--run_dir": str(run),
        }
        main(["fit", *(word for pair in options.items() for word in pair)])
    return results


def table(figures: dict[str, dict[str, list[float]]], tasks: Iterable[str], aggregation: str) -> str:
    """Markdown: methods x tasks, x 100, mean over seeds, and the mean over tasks of each seed."""
    tasks = list(tasks)
    lines = [f"| method ({aggregation}) | " + " | ".join(tasks) + " | mean | by seed |"]
    lines.append("|---|" + "---:|" * (len(tasks) + 1) + "---|")
    for method, by_task in figures.items():
        seeds = [statistics.mean(by_seed) for by_seed in zip(*(by_task[task] for task in tasks), strict=True)]
        cells = [f"{statistics.mean(by_task[task]):.2f}" for task in tasks]
        by_seed = ", ".join(f"{value:.2f}" for value in seeds) if len(set(seeds)) > 1 else ""
        lines.append(f"| {method} | {' | '.join(cells)} | {statistics.mean(seeds):.2f} | {by_seed} |")
    return "\n".join(lines)


def run() -> None:
    """Fit everything and print the table."""
    arguments = parse_arguments()
    tasks = arguments.tasks.split(",")
    figures: dict[str, dict[str, list[float]]] = {}
    for task in tasks:
        for seed in arguments.seeds.split(","):
            rows, _ = load_results(fit(arguments, task, seed))
            for row in rows:
                if row.aggregation == arguments.aggregation:
                    figures.setdefault(row.method, {}).setdefault(task, []).append(100 * row.spearman)
    print(table(figures, tasks, arguments.aggregation))


if __name__ == "__main__":
    run()
