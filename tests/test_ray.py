"""examples/ray_encode.py on two local workers: the vectors of one process, whatever is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert import Model, SentenceEncoder, Whitening
from flowbert.data.corpus import load_corpus

ROOT = Path(__file__).parents[1]
START = """
import ray, runpy, sys
from flowbert.maps import Moments
merge = Moments.merge
def counted(parts):
    parts = list(parts)
    print("parts", sorted(part.count for part in parts))
    return merge(parts)
Moments.merge = counted
ray.init(num_cpus=4, include_dashboard=False)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
FILES, ROWS, BLOCK = 5, 3000, 4096


def kill_an_actor():
    """Kill the first actor that encodes."""
    for _ in range(600):
        time.sleep(0.1)
        listed = ["ps", "-eo", "pid,args"]
        lines = subprocess.run(
            listed, capture_output=True, text=True
        ).stdout.splitlines()
        found = [x for x in lines if "ray::MapWorker(MapBatches(Encode)).submit" in x]
        if found:
            os.kill(int(found[0].split()[0]), signal.SIGKILL)
            return
    raise AssertionError("no actor encoded")


def test_the_document_shows_the_file():
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "ray_encode.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```\n" in page


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_the_vectors_are_those_of_one_process(killed, tmp_path):
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    known = load_corpus("builtin-sample").sentences
    texts = [f"{known[i % len(known)]} {i}" for i in range(FILES * ROWS)]
    parts = [texts[start : start + ROWS] for start in range(0, len(texts), ROWS)]
    (tmp_path / "in").mkdir()
    for number, part in enumerate(parts):
        places = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"id": list(places), "text": part})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    (tmp_path / "start.py").write_text(START)
    example = str(ROOT / "examples" / "ray_encode.py")
    words = ["start.py", example, "builtin-sample", "in", "out"]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "RAY_AUTH_MODE": "disabled"}
    log = tmp_path / "log"
    with log.open("w") as file:
        run = subprocess.Popen(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        if killed:
            kill_an_actor()
        assert run.wait(timeout=300) == 0
    said = log.read_text()
    print(said)
    assert "parts [2712, 4096, 4096, 4096]" in said
    assert "only received 1 input" not in said  # both actors have work
    assert ("retried" in said) == killed
    files = sorted((tmp_path / "out").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    assert table["id"].to_pylist() == list(range(len(texts)))
    encoder = SentenceEncoder("builtin-sample")
    # Batches of other sentences round differently.
    raw = Model(encoder).encode(texts, batch_size=BLOCK)
    model = Model(encoder, Whitening().fit(raw))
    expected = model.encode(texts, batch_size=BLOCK)
    assert np.array_equal(np.stack(table["vector"].to_numpy()), expected)
