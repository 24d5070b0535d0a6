"""Run the speed benchmarks, each beside a peer in the same run.

    python -m benchmarks
    python -m benchmarks --only flow_step bootstrap --threads 1 --clock cpu

Results go into one JSON file, where a row that is measured again replaces its earlier one, and with
--page as a table into a page, such as docs/benchmarks.md, or a new one. Benchmarks on real
encoders and data read the folder FLOWBERT_REAL (models/, data/senteval, data/corpora/captions.txt).
seven_tasks takes minutes and runs only if it is named. Peers: ``pip install -r
requirements-bench.txt`` and ``pip install --no-deps nflows==0.14``.
"""

import argparse
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import (
    CLOCKS,
    NotMeasured,
    Setting,
    machine,
    split_page,
    table,
    update_results,
    write_page,
)

ROOT = Path(__file__).parents[1]
BY_DEFAULT = (
    "flow_step",
    "bootstrap",
    "uniformity",
    "whitening",
    "encoding",
    "cold",
    "evaluation",
    "quickstart",
    "simcse",
    "gpu",
)
ALL = (*BY_DEFAULT, "seven_tasks")


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Speed beside peers."
    )
    parser.add_argument(
        "--only", nargs="+", default=BY_DEFAULT, choices=ALL, metavar="NAME"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: a trial")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "benchmarks.json"
    )
    parser.add_argument(
        "--page", type=Path, help="such as docs/benchmarks.md, or a new file"
    )
    return parser.parse_args(words)


def measure(names: Sequence[str], setting: Setting) -> list[dict[str, Any]]:
    """Run benchmarks; one that cannot run here is a record with the reason."""
    records: list[dict[str, Any]] = []
    for name in names:
        try:
            for row in import_module(f"benchmarks.{name}").rows(setting):
                records.append({"benchmark": name, **asdict(row)})
        except NotMeasured as reason:
            records.append({"benchmark": name, "name": name, "reason": str(reason)})
    return records


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    arguments = parse_arguments(words)
    if arguments.page is not None:
        split_page(
            arguments.page
        )  # one without markers is told before anything is measured
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.threads)
    real = os.environ.get("FLOWBERT_REAL")
    setting = Setting(
        arguments.clock,
        arguments.threads,
        Path(real).resolve() if real else None,
        arguments.scale,
    )
    about = machine(setting)
    records = measure(arguments.only, setting)
    text = table(update_results(arguments.output, records, about))
    print(text)
    if arguments.page is not None:
        write_page(arguments.page, text)


if __name__ == "__main__":
    main()
