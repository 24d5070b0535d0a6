"""The main jobs alone, twice at once, and beside as many busy loops as processors.

    FLOWBERT_REAL=DIR python -m benchmarks.busy
    FLOWBERT_REAL=DIR OMP_NUM_THREADS=1 python -m benchmarks.busy --only flow whitening

A job is prepared in processes of its own, which then start together. A figure is the median of the
rounds; of two jobs at once the later end counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
ROUNDS = 3
LOOP = "while True: pass"


def flow() -> Callable[[], object]:
    """Steps of a flow as the quickstart fits it: ``lu``, batches of 64."""
    from flowbert.maps import Flow

    return lambda: Flow(steps=100, accelerator="cpu").fit(_vectors(10_000, 384))


def whitening() -> Callable[[], object]:
    """A fit of whitening."""
    from flowbert.maps import Whitening

    x = _vectors(200_000, 384)
    return lambda: Whitening().fit(x)


def encoding() -> Callable[[], object]:
    """Captions through all-MiniLM-L6-v2."""
    from flowbert.encoders import SentenceEncoder

    encoder = SentenceEncoder(str(_real("models", "all-MiniLM-L6-v2")))
    sentences = _captions(1200)
    return lambda: encoder.encode(sentences)


def simcse() -> Callable[[], object]:
    """Steps of unsupervised SimCSE."""
    from pytorch_lightning import Trainer

    from flowbert.encoders import SentenceEncoder
    from flowbert.methods import SimCSEModule, TextDataModule
    from flowbert.methods.examples import Examples
    from flowbert.training.trainer import quiet_lightning

    path, sentences = str(_real("models", "minilm-mlm")), tuple(_captions(512))

    def train() -> None:
        encoder = SentenceEncoder(path, pooling="mean", frozen=False)
        module = SimCSEModule(encoder, head="none")
        examples = Examples("captions", (sentences, sentences))
        data = TextDataModule(encoder, examples, batch_size=64, max_length=32)
        with tempfile.TemporaryDirectory() as folder, quiet_lightning():
            Trainer(
                max_steps=3,
                accelerator="cpu",
                devices=1,
                limit_val_batches=0,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=folder,
            ).fit(module, datamodule=data)

    return train


def bootstrap() -> Callable[[], object]:
    """Resamples of two Spearmans of STS-B's test split."""
    import numpy as np

    from flowbert.data.scored_pairs import STSData, Subset
    from flowbert.tasks import STS

    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, 1379) * 4) / 4
    items = {name: gold + rng.normal(0, 2, 1379) for name in ("first", "second")}
    subset = Subset("all", ("",) * 1379, ("",) * 1379, gold)
    task = STS(STSData("benchmark", {"test": [subset]}))
    return lambda: task.resample(items, 30_000)


JOBS: dict[str, Callable[[], Callable[[], object]]] = {
    "flow": flow,
    "whitening": whitening,
    "encoding": encoding,
    "simcse": simcse,
    "bootstrap": bootstrap,
}


def _vectors(count: int, dim: int) -> object:
    import numpy as np

    return np.random.default_rng(0).standard_normal((count, dim), dtype=np.float32)


def _real(*parts: str) -> Path:
    return Path(os.environ["FLOWBERT_REAL"], *parts)


def _captions(count: int) -> Sequence[str]:
    from flowbert.data.corpus import load_corpus

    corpus = load_corpus(str(_real("data", "corpora", "captions.txt")))
    return sorted(set(corpus.sentences))[:: len(set(corpus.sentences)) // count][:count]


def serve(job: str) -> None:
    """Prepare a job, and do it at each line of the standard input."""
    warnings.simplefilter("ignore")
    run = JOBS[job]()
    run()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(json.dumps(time.perf_counter() - start), flush=True)


@contextmanager
def processes(*commands: Sequence[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that end with the context."""
    with ExitStack() as stack:
        started = []
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        yield started


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def seconds(job: str, count: int, loops: int, rounds: int) -> float:
    """Median over rounds of the seconds until ``count`` processes have done a job."""
    command = ["-m", "benchmarks.busy", "--job", job]
    with processes(*[command] * count) as workers:
        for worker in workers:
            if _line(worker) != "ready\n":
                raise SystemExit(f"{job}: ended before it was measured")
        with processes(*[["-c", LOOP]] * loops):
            times = []
            for _ in range(rounds):
                for worker in workers:
                    print(file=worker.stdin, flush=True)
                times.append(max(float(_line(each)) for each in workers))
    return median(times)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(JOBS), choices=JOBS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--job", help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args(words)
    if options.job:
        serve(options.job)
        return
    loops = len(os.sched_getaffinity(0))
    print(f"| job | alone | twice at once | beside {loops} busy loops |")
    print("|---|---:|---:|---:|")
    for job in options.only:
        alone, twice, beside = (
            seconds(job, count, busy, options.rounds)
            for count, busy in ((1, 0), (2, 0), (1, loops))
        )
        print(
            f"| {job} | {alone:.2f} s | {twice:.2f} s, {twice / alone:.2f} x "
            f"| {beside:.2f} s, {beside / alone:.2f} x |",
            flush=True,
        )


if __name__ == "__main__":
    main()
