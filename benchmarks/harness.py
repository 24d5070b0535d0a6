"""What the benchmarks share: rounds in turn, the machine, results and their table."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from flowbert.io import read_json, write_atomically, write_json

CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "cpu": time.process_time,
}
# The fastest of several: one size fits the caches of one processor, and not those of another.
_PRODUCT_SIZES = (512, 1024, 2048)
_COPY_BYTES = (2**23, 2**26)

BEGIN = "<!-- python -m benchmarks: begin -->"
END = "<!-- python -m benchmarks: end -->"


class NotMeasured(Exception):  # noqa: N818 - nothing went wrong
    """A benchmark that cannot run here, with the reason."""


@dataclass(frozen=True)
class Setting:
    """Options of the command line.

    Attributes:
        clock: ``wall``, or ``cpu`` for the time of this process, on a machine that is shared.
        threads: Threads of torch.
        real: Folder with ``models/`` and ``data/``; None where there is none.
        scale: Share of sizes and rounds; below 1 is only a trial.
    """

    clock: str = "wall"
    threads: int = 1
    real: Path | None = None
    scale: float = 1.0

    def times(self, count: int, least: int = 1) -> int:
        """A count at this scale."""
        return max(least, round(count * self.scale))

    def real_path(self, *parts: str) -> Path:
        """A path of real models or data.

        Raises:
            NotMeasured: If there are none.
        """
        if self.real is None:
            raise NotMeasured("needs FLOWBERT_REAL, a folder with models/ and data/")
        return self.real.joinpath(*parts)

    def seconds(
        self, calls: Mapping[str, Callable[[], object]], rounds: int
    ) -> dict[str, float]:
        """The best of several rounds of each call, in turn: other work disturbs all alike."""
        clock = CLOCKS[self.clock]
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(self.times(rounds)):
            for name, call in calls.items():
                start = clock()
                call()
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                best[name] = min(best[name], clock() - start)
        return best

    def product_rate(self, dtype: str = "float32", device: str = "cpu") -> float:
        """Floating point operations per second of the fastest product of square matrices."""
        rates = []
        # A GPU is busy with larger products only.
        sizes = _PRODUCT_SIZES if device == "cpu" else (8192,)
        for size in sizes:
            x = torch.randn(size, size, device=device).to(getattr(torch, dtype))
            y = torch.empty_like(x)
            call = partial(torch.mm, x, x, out=y)
            rates.append(2.0 * size**3 / self.seconds({"product": call}, 10)["product"])
        return max(rates)

    def bandwidth(self, device: str = "cpu") -> float:
        """Bytes per second, read and written, of the fastest copy."""
        rates = []
        for size in _COPY_BYTES:
            x = torch.ones(size // 4, device=device)
            y = torch.empty_like(x)
            rates.append(
                2.0 * size / self.seconds({"copy": partial(y.copy_, x)}, 10)["copy"]
            )
        return max(rates)

    def floor(
        self,
        operations: float,
        moved: float,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> float:
        """Seconds that no implementation goes below: its products and its traffic.

        Both rates are measured beside the row, on as many threads, and are the best of several
        rounds and sizes.

        Args:
            operations: Floating point operations of products that are needed, two for each
                multiplication and addition; without padding, and without zeros of triangles.
            moved: Bytes that must be read or written, each once: inputs, results and parameters.
                Activations are taken to stay in the caches.
            dtype: Precision of the products.
            device: Where.
        """
        seconds = operations / self.product_rate(dtype, device)
        return seconds + moved / self.bandwidth(device)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What is measured.
        setting: Its sizes.
        ours: Seconds.
        peer: Seconds of the peer, in the same run; 0 without a peer.
        peer_name: The peer.
        floor: Seconds by :meth:`Setting.floor`; each benchmark says what it counts.
    """

    name: str
    setting: str
    ours: float
    peer: float = 0.0
    peer_name: str = ""
    floor: float = 0.0


def bfloat16_is_fast() -> bool:
    """Whether the processor multiplies in bfloat16 itself."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and bool(supported())


def machine(setting: Setting) -> dict[str, Any]:
    """What a figure depends on."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.split(":")[1].strip()
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True
    )
    return {
        "commit": commit.stdout.strip() or "unknown",
        "processor": processor,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": "native" if bfloat16_is_fast() else "emulated",
        "cores": os.cpu_count(),
        "gflops": round(setting.product_rate() / 1e9),
        "bandwidth": round(setting.bandwidth() / 1e9),
        "threads": setting.threads,
        "clock": setting.clock,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """The records of a results file as Markdown, below the machines of their runs."""
    machines = [_describe(record["machine"]) for record in records]
    numbers = {text: run for run, text in enumerate(dict.fromkeys(machines), start=1)}
    lines = [f"Run {run}: {text}.\n" for text, run in numbers.items()]
    lines.append("| what | ours | peer | peer / ours | floor / ours | run |")
    lines.append("|---|---:|---|---:|---:|---:|")
    for record, text in zip(records, machines, strict=True):
        if "reason" in record:
            cells = [record["name"], f"not measured: {record['reason']}", "", "", ""]
        else:
            ours, peer, floor = (record[name] for name in ("ours", "peer", "floor"))
            cells = [
                f"{record['name']}: {record['setting']}",
                _duration(ours),
                f"{record['peer_name']}, {_duration(peer)}" if peer else "",
                f"{peer / ours:.2f}" if peer else "",
                f"{floor / ours:.2f}" if floor else "",
            ]
        lines.append(f"| {' | '.join(cells)} | {numbers[text]} |")
    return "\n".join(lines)


def _describe(about: Mapping[str, Any]) -> str:
    return (
        "{processor}, {capability}, bfloat16 {bfloat16}, {cores} cores, {gflops} GFLOP/s in "
        "float32, {bandwidth} GB/s, GPU: {gpu}, torch {torch}; {threads} threads, {clock} time, "
        "load {load}; commit {commit}"
    ).format_map(about)


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


def update_results(
    path: Path, records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Replace the rows that were measured again in the results file; all records of it.

    Rows that cannot be measured here stay as another machine measured them.
    """
    before = read_json(path, list) if path.exists() else []
    rows = [*before, *({**record, "machine": about} for record in records)]
    newest = {(row["benchmark"], row["name"], row.get("setting")): row for row in rows}
    measured = {row["benchmark"] for row in rows if "reason" not in row}
    merged = [
        row
        for row in newest.values()
        if "reason" not in row or row["benchmark"] not in measured
    ]
    write_json(path, merged)
    return merged


def split_page(path: Path) -> tuple[str, str]:
    """What stands before and after the table of a page; a new page has the table alone.

    Raises:
        SystemExit: If the page lacks the markers of the table.
    """
    if not path.exists():
        return f"{BEGIN}", f"{END}\n"
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path}: has no lines {BEGIN} and {END}")
    return f"{before}{begin}", f"{end}{after}"


def write_page(path: Path, text: str) -> None:
    """Write a table between the two markers of a page.

    Raises:
        SystemExit: If the page lacks them.
    """
    before, after = split_page(path)
    with write_atomically(path) as temporary:
        temporary.write_text(f"{before}\n\n{text}\n\n{after}", encoding="utf-8")
