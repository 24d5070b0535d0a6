"""What every speed benchmark shares: ways that take turns, floors at rates measured in the same run, one table."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from flowbert.io.atomic import written_atomically

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
BEGIN, END = "<!-- python -m benchmarks: begin -->", "<!-- python -m benchmarks: end -->"
Way = Callable[[], object]


class NotMeasured(Exception):  # noqa: N818 - nothing went wrong
    """A benchmark that this machine cannot run, with what it lacks."""


@dataclass(frozen=True)
class Setting:
    """What the command line says.

    Attributes:
        clock: ``wall``; ``cpu`` is the process's own time, for a machine that others use, too.
        threads: Threads of torch.
        real: Folder with ``models/`` and ``data/senteval``; None where there is none.
        scale: Share of the full size, rounds and steps: below 1 only shows that the code runs.
    """

    clock: str = "wall"
    threads: int = 1
    real: Path | None = None
    scale: float = 1.0

    def times(self, count: int, least: int = 1) -> int:
        """A count at this scale."""
        return max(least, round(count * self.scale))

    def real_folder(self, *parts: str) -> Path:
        """A folder of real models or data.

        Raises:
            NotMeasured: If there is none.
        """
        if self.real is None:
            raise NotMeasured("needs FLOWBERT_REAL, a folder with models/ and data/")
        return self.real.joinpath(*parts)

    def seconds(self, ways: dict[str, Way], rounds: int, device: str = "cpu") -> dict[str, float]:
        """The best of several rounds of each, in which they take turns: a busy machine hurts all of them alike."""
        clock = CLOCKS[self.clock]
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(self.times(rounds)):
            for name, way in ways.items():
                start = clock()
                way()
                if device != "cpu":
                    torch.cuda.synchronize()
                best[name] = min(best[name], clock() - start)
        return best


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What is measured.
        setting: Its sizes.
        ours: Seconds.
        peer: Seconds of the peer, in the same run.
        peer_name: Which peer.
        floor: Seconds that cannot be avoided, at rates of the same run; 0 where none is stated.
        floor_is: What the floor counts.
        aim: What was aimed at, in words.
        per: What the seconds are of, such as ``step``.
        more: Further figures, for the file.
    """

    name: str
    setting: str
    ours: float
    peer: float
    peer_name: str
    floor: float
    floor_is: str
    aim: str = ""
    per: str = "run"
    more: dict[str, Any] | None = None


class Product:
    """A product of two matrices, the measure of what a processor can do: one of the ways that take turns."""

    def __init__(self, rows: int, inner: int, columns: int, dtype: torch.dtype, device: str = "cpu") -> None:
        self._x = torch.randn(rows, inner, device=device).to(dtype)
        self._weight = torch.randn(columns, inner, device=device).to(dtype)
        # Some 0.2 GFLOP at a time: a single small product is below the clock's resolution.
        self.times = max(1, 200_000_000 // (2 * rows * inner * columns))
        self.operations = 2.0 * rows * inner * columns * self.times

    def __call__(self) -> None:
        """Multiply."""
        for _ in range(self.times):
            torch.nn.functional.linear(self._x, self._weight)


class Copy:
    """A copy of 64 MiB: read and written."""

    bytes = 2.0 * 2**26

    def __init__(self) -> None:
        self._from, self._to = torch.zeros(2**24), torch.zeros(2**24)

    def __call__(self) -> None:
        """Copy."""
        self._to.copy_(self._from)


def machine(setting: Setting) -> dict[str, Any]:
    """What a figure depends on."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "processor": cpu,
        "cores": os.cpu_count(),
        "threads": setting.threads,
        "clock": setting.clock,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "load_average": os.getloadavg()[0],
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows of a results file as Markdown, below the machines that they were measured on."""
    machines = [
        f"{about['processor']}, {about['cores']} cores, GPU: {about['gpu'] or 'none'}, torch {about['torch']}; "
        f"{about['threads']} thread(s), {about['clock']} time, load {about['load_average']:.1f}"
        for about in (row["machine"] for row in rows)
    ]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(machines), start=1)}
    lines = ["| what | peer | ours | peer / ours | floor | floor / ours | aim | run |"]
    lines.append("|---|---|---:|---:|---:|---:|---|---:|")
    for row, run in zip(rows, machines, strict=True):
        if "not_measured" in row:
            lines.append(f"| {row['name']} | not measured: {row['not_measured']} | | | | | | {numbers[run]} |")
            continue
        peer, ours, floor = (_shown(row[name]) for name in ("peer", "ours", "floor"))
        beside_floor = f"{floor} ({row['floor_is']}) | {row['floor'] / row['ours']:.2f}"
        lines.append(
            f"| {row['name']}: {row['setting']} | {row['peer_name']}, {peer} | {ours} a {row['per']} "
            f"| {row['peer'] / row['ours']:.2f} | {beside_floor if row['floor'] else row['floor_is'] + ' |'} "
            f"| {row['aim']} | {numbers[run]} |"
        )
    return "\n".join([*(f"Run {number}: {text}.\n" for text, number in numbers.items()), *lines])


def write_results(path: Path, rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
    """Write rows to the results file, where they replace those of the same benchmarks; all rows of the file."""
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    again = {row["benchmark"] for row in rows}
    kept = [row for row in before if row["benchmark"] not in again]
    merged = [*kept, *({**row, "machine": about} for row in rows)]
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps({"rows": merged}, indent=1) + "\n", encoding="utf-8")
    return merged


def write_page(path: Path, text: str) -> None:
    """Put a table between the two markers of a page.

    Raises:
        SystemExit: If the page lacks them.
    """
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path}: has no lines {BEGIN} and {END}")
    with written_atomically(path) as temporary:
        temporary.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []
