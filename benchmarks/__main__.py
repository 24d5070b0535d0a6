"""Run the speed benchmarks: each beside its peer and its floor in the same run.

    python -m benchmarks
    python -m benchmarks --only flow_step,bootstrap --threads 1 --clock cpu

Results go into one JSON file, where the rows of a benchmark that runs again replace its earlier ones, and with --page
all of them as a table into docs/benchmarks.md. Rows on real encoders and data read the folder FLOWBERT_REAL (models/,
data/senteval, data/corpora/captions.txt); seven_tasks takes minutes and runs only if it is named. Peers come with
``pip install -r requirements-bench.txt && pip install --no-deps nflows==0.14``.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import NotMeasured, Row, Setting, machine, table, write_page, write_results

ROOT = Path(__file__).parents[1]
BY_DEFAULT = ("flow_step", "bootstrap", "uniformity", "encoding", "simcse", "gpu")
NAMED = ("seven_tasks",)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed beside peers and floors.")
    parser.add_argument("--only", default=",".join(BY_DEFAULT), help=f"names of {', '.join((*BY_DEFAULT, *NAMED))}")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads (default: all cores)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: on a machine others use, too")
    parser.add_argument("--scale", type=float, default=1.0, help="share of sizes and rounds; below 1 is only a trial")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "benchmarks.json", help="results file")
    parser.add_argument("--page", type=Path, default=None, help="page whose table is written, e.g. docs/benchmarks.md")
    return parser.parse_args()


def run(names: list[str], setting: Setting) -> list[dict[str, Any]]:
    """Measure; a benchmark that cannot run here is a record that says why."""
    records: list[dict[str, Any]] = []
    for name in names:
        rows: Callable[[Setting], Iterable[Row]] = import_module(f"benchmarks.{name}").rows
        try:
            for row in rows(setting):
                records.append({"benchmark": name, **asdict(row)})
        except NotMeasured as reason:
            records.append({"benchmark": name, "name": name, "not_measured": str(reason)})
    return records


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    names = arguments.only.split(",")
    unknown = set(names) - {*BY_DEFAULT, *NAMED}
    if unknown:
        raise SystemExit(f"--only: received {', '.join(sorted(unknown))}; allowed: {', '.join((*BY_DEFAULT, *NAMED))}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.threads)
    real = os.environ.get("FLOWBERT_REAL")
    setting = Setting(arguments.clock, arguments.threads, Path(real) if real else None, arguments.scale)
    about = machine(setting)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    rows = write_results(arguments.output, run(names, setting), about)
    text = table(rows)
    print(text)
    if arguments.page is not None:
        write_page(arguments.page, text)


if __name__ == "__main__":
    main()
