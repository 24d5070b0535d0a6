"""Damaged files through every reader: a result or a UserError, and nothing else.

What has a digest gives the same result or a UserError, and no other result.
"""

import random
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.data.answers import load_answers
from flowbert.data.corpus import load_corpus
from flowbert.data.entailment import load_entailment
from flowbert.data.nli import load_nli
from flowbert.data.sts import load_sts
from flowbert.encoders import SentenceEncoder, WordVectors
from flowbert.errors import FlowbertWarning, UserError
from flowbert.experiments import Results, compare
from flowbert.exports import export
from flowbert.fitting import fit
from flowbert.model import Model
from flowbert.training import read_checkpoint
from flowbert.vectors import EmbeddingCache, as_vectors

TABLE = pa.table(
    {
        "sentence1": [f"a dog é {n}" for n in range(12)],
        "sentence2": list("abcdefghijkl"),
        "score": list("012340123401"),
        "gold_label": list("012012012012"),
        "qtext": list("qrqrqrqrqrqr"),
        "label": list("100110011001"),
        "atext": list("abcdefghijkl"),
    }
)
READERS: list[Callable[[str], object]] = [
    lambda path: load_corpus(
        path, column=None if path.endswith(".txt") else "sentence1"
    ),
    load_sts,
    load_nli,
    load_entailment,
    load_answers,
]
SPECIAL = [b"NaN", b"\\ud800", *(bytes([value]) for value in b'\0\xff\r\n\t",{[')]
PIECES = st.sampled_from(SPECIAL) | st.binary(max_size=3)
EDITS = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 20), PIECES), max_size=3
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("intact")
    pq.write_table(TABLE, folder / "a.parquet")
    frame = TABLE.to_pandas()
    for name in ("a.csv", "a.csv.gz", "a.txt"):
        frame.to_csv(folder / name, index=False)
    frame.to_csv(folder / "a.tsv", index=False, sep="\t")
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=60, deadline=None)
@given(
    edits=EDITS,
    reader=st.sampled_from(READERS),
    noise=st.binary(max_size=50) | st.none(),
)
@pytest.mark.parametrize(
    "name", ["a.txt", "a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.parquet"]
)
def test_only_user_errors(
    tmp_path_factory: pytest.TempPathFactory,
    intact: dict[str, bytes],
    name: str,
    edits: list[tuple[int, int, bytes]],
    reader: Callable[[str], object],
    noise: bytes | None,
) -> None:
    content = bytearray(intact[name])
    for place, length, piece in edits:
        place %= len(content) + 1
        content[place : place + length] = piece
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(bytes(content) if noise is None else noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowbertWarning)
        with suppress(UserError):
            reader(str(path))


SECONDS = 60
"""Time of each test below; what it has tried by then has the numbers 0 to n of one sequence."""


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A file cut, with bytes changed, lost, doubled or moved, or of something else."""
    start, length = rng.randrange(len(content)), rng.choice([1, 1, 2, 8, 100])
    piece = content[start : start + length]
    noise = rng.choice([*SPECIAL, rng.randbytes(length), piece[::-1], b""])
    ways = [
        content[:start],
        content[start:],
        content[:start] + noise + content[start + length :],
        content[:start] + noise + content[start:],
        content + piece,
        piece,
        b"",
    ]
    return rng.choice(ways)


def try_files(read: Callable[[Path], Any], files: list[Path], seed: int) -> None:
    """Damage one file at a time; ``read`` raises what is no UserError."""
    rng, end = random.Random(seed), time.monotonic() + SECONDS
    tried = 0
    while time.monotonic() < end and tried < 20_000:
        file = rng.choice(files)
        intact = file.read_bytes()
        if intact:
            file.write_bytes(damaged(intact, rng))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with suppress(UserError):
                    read(file)
            file.write_bytes(intact)
        tried += 1
    assert tried > 50


@pytest.mark.slow
def test_all_readers(intact: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in intact.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "words.txt").write_text("dog 0.1 0.2\ncat 1 2\nbird 3 4\n")
    np.save(tmp_path / "rows.npy", np.eye(5, 3, dtype=np.float32))
    readers: list[Callable[[str], object]] = [
        *READERS,
        WordVectors,
        lambda path: as_vectors(path)[:],
    ]

    def read(file: Path) -> None:
        for reader in readers:
            with suppress(UserError):
                reader(str(file))

    try_files(read, sorted(tmp_path.iterdir()), seed=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run."""
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    trainer = {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False}
    fit("flow", max_sentences=128, trainer=trainer, run_dir=folder)
    return folder


def same_or_refused(read: Callable[[], Any]) -> Callable[[Path], None]:
    """A reader that gives what it gave of the intact files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = read()

    def again(file: Path) -> None:
        np.testing.assert_equal(read(), expected, err_msg=str(file))

    return again


TEXTS = ["A man rides a horse.", "Two dogs run."]


@pytest.mark.slow
def test_models_of_a_run(run: Path) -> None:
    def read() -> Any:
        models = [Model.load(run, name) for name in ("flow", "whitening", "raw")]
        return [
            (model.encode(TEXTS), model.encode(TEXTS, precision="int8"))
            for model in models
        ]

    try_files(same_or_refused(read), sorted((run / "model").iterdir()), seed=1)


@pytest.mark.slow
def test_exported_models(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    to = export(run, tmp_path / "exported")
    files = [file for file in sorted(to.rglob("*")) if file.is_file()]
    try_files(same_or_refused(lambda: Model.load(to).encode(TEXTS)), files, seed=2)


@pytest.mark.slow
def test_results_checkpoints_and_kept_records(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    options: dict[str, Any] = {"max_sentences": 128, "bootstrap": 0, "output": output}
    compare(methods="raw,zca", **options)

    def read(file: Path) -> None:
        if file.suffix == ".ckpt":
            read_checkpoint(file)
        elif file == output:
            Results.load(output)
        else:
            compare(methods="raw,zca", **options)

    kept = sorted(output.with_suffix(".records").iterdir())
    expected = [Results.load(output).frame["value"].tolist()]

    def checked(file: Path) -> None:
        read(file)
        if file in kept:
            again = Results.load(output).frame["value"].tolist()
            np.testing.assert_equal(again, expected[0])

    try_files(checked, [*kept, output, run / "checkpoints" / "last.ckpt"], seed=3)


@pytest.mark.slow
def test_cached_vectors(tmp_path: Path) -> None:
    encoder = SentenceEncoder()

    def read() -> Any:
        return EmbeddingCache(tmp_path).rows(encoder, TEXTS)[:]

    again = same_or_refused(read)
    files = [*tmp_path.glob("*.sqlite")]
    copies = {file: file.read_bytes() for file in files}

    def checked(file: Path) -> None:
        again(file)
        for copied, content in copies.items():  # what was encoded again goes
            copied.write_bytes(content)

    try_files(checked, files, seed=4)
