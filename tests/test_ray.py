"""examples/ray_encode.py on the cores of this machine: the vectors of one process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert import Model, SentenceEncoder, Whitening
from flowbert.data.corpus import load_corpus

ROOT = Path(__file__).parents[1]
FILES, ROWS, BLOCK = 3, 1500, 4096


def test_the_document_shows_the_file():
    page = (ROOT / "docs" / "scaling.md").read_text()
    example = (ROOT / "examples" / "ray_encode.py").read_text()
    assert f"```python\n{example}```\n" in page


@pytest.mark.slow
def test_the_vectors_are_those_of_one_process(tmp_path):
    pytest.importorskip("ray", reason="ray[data] is not installed")
    known = load_corpus("builtin-sample").sentences
    texts = [f"{known[i % len(known)]} {i}" for i in range(FILES * ROWS)]
    (tmp_path / "in").mkdir()
    for start in range(0, len(texts), ROWS):
        part = texts[start : start + ROWS]
        table = pa.table({"id": range(start, start + ROWS), "text": part})
        pq.write_table(table, tmp_path / "in" / f"{start:05}.parquet")
    example = str(ROOT / "examples" / "ray_encode.py")
    words = [sys.executable, example, "builtin-sample", "in", "out"]
    environment = os.environ | {"RAY_AUTH_MODE": "disabled"}
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=300)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    assert table["id"].to_pylist() == list(range(len(texts)))
    encoder = SentenceEncoder("builtin-sample")
    # Batches of other sentences round differently.
    raw = Model(encoder).encode(texts, batch_size=BLOCK)
    model = Model(encoder, Whitening().fit(raw))
    expected = model.encode(texts, batch_size=BLOCK)
    assert np.array_equal(np.stack(table["vector"].to_numpy()), expected)
