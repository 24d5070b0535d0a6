"""Damaged files through every reader: a result or a UserError, and nothing else."""

import gzip
import os
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.answers import load_answers
from flowbert.data.corpus import load_corpus, read_sentences
from flowbert.data.entailment import load_entailment
from flowbert.data.nli import load_nli
from flowbert.data.readers import read_table
from flowbert.data.sts import load_task
from flowbert.errors import FlowbertWarning, UserError

ROUNDS = int(os.environ.get("FLOWBERT_FUZZ", "60"))  # damages of each file through each of its readers
_SPECIAL = (
    b"\0",
    b"\xff",
    b"\xe9",
    b"\r",
    b"\n",
    b"\t",
    b'"',
    b",",
    b"{",
    b"[",
    b"NaN",
    b"1e999",
    b"\xed\xa0\x80",
    b"\\ud800",
)

PAIRS = {"sentence1": ["a dog é", "b", "c d"], "sentence2": ["x", "y", "z z"], "score": ["1", "2.5", "0"]}
NLI = {"premise": ["a", "a", "b"], "hypothesis": ["c", "d", "e"], "label": ["entailment", "contradiction", "neutral"]}
ENTAILMENT = {
    "premise": [f"p{row}" for row in range(12)],
    "hypothesis": [f"h{row}" for row in range(12)],
    "label": ["entailment", "neutral", "contradiction"] * 4,
}
ANSWERS = {"question": ["q", "q", "r"], "label": ["1", "0", "1"], "answer": ["a", "b", "c"]}
TEXT = {"text": ["one dog", "two", "three été"]}


def table(columns: dict[str, list[str]], extension: str) -> bytes:
    names, rows = list(columns), list(zip(*columns.values(), strict=True))
    if extension == ".parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink)
        return bytes(sink.getvalue())
    if extension == ".jsonl":
        lines = ["{" + ", ".join(f'"{n}": "{v}"' for n, v in zip(names, row, strict=True)) + "}" for row in rows]
    else:
        separator = "," if extension == ".csv" else "\t"
        lines = [separator.join(line) for line in [names, *rows]]
    return "".join(f"{line}\n" for line in lines).encode()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Flipped bits, cuts, repeated and strange pieces: one to three of them."""
    spoiled = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(spoiled) + 1)
        match rng.randrange(6):
            case 0 | 1 if place < len(spoiled):
                spoiled[place] ^= 1 << rng.randrange(8)
            case 2 if place < len(spoiled):
                spoiled[place] = rng.randrange(256)
            case 3:
                spoiled[place:place] = rng.choice(_SPECIAL)
            case 4:
                del spoiled[place : place + rng.choice((1, 2, 10, 1000))]
            case _:
                spoiled[place:place] = spoiled[max(0, place - 20) : place]
    return bytes(spoiled)


_SICK = (
    b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    b"1\tA boy\tA girl\t3.4\tNEUTRAL\n2\tX\tY\t1\tENTAILMENT\n"
)
_STSB = "main\tfile\t2012\t1\t1.500\tone é\tsecond\nmain\tf\t2\t3\t5\ta\tb\tsource\n".encode()
SENTEVAL = {
    **{f"senteval/SICK/SICK_{split}.txt": _SICK for split in ("train", "trial", "test_annotated")},
    **{f"senteval/STS/STSBenchmark/sts-{split}.csv": _STSB for split in ("train", "dev", "test")},
    **{
        f"senteval/STS/STS13-en-test/STS.{kind}.{name}.txt": content
        for name in ("FNWN", "headlines", "OnWN")
        for kind, content in (("input", "One é.\tThe .\nTwo.\tNo.\nThree.\tFour.\n".encode()), ("gs", b"5.0\n\n0.5\n"))
    },
}
Reader = Callable[[Path], object]


def cases() -> Iterator[tuple[str, bytes, Reader]]:
    """File name, its sound content, and what reads it."""
    everything: list[tuple[str, dict[str, list[str]], Reader]] = [
        ("sentences", TEXT, read_sentences),
        ("corpus", TEXT, lambda path: load_corpus(str(path), column="text")),
        ("table", PAIRS, lambda path: read_table(path, ["sentence1", "score"]).texts("sentence1")),
        ("pairs", PAIRS, lambda path: load_task(str(path), score_range=(0, 5))),
        ("free-pairs", PAIRS, lambda path: load_task(str(path))),
        ("nli", NLI, lambda path: load_nli(str(path))),
        ("answers", ANSWERS, load_answers),
        ("entailment", ENTAILMENT, lambda path: load_entailment(str(path))),
    ]
    for name, columns, reader in everything:
        for extension in (".csv", ".tsv", ".jsonl", ".parquet"):
            yield f"{name}{extension}", table(columns, extension), reader
        yield f"{name}.csv.gz", gzip.compress(table(columns, ".csv"), mtime=0), reader
    yield "s.txt", "one dog\n\ntwo été\r\n".encode(), read_sentences
    yield "s.txt.gz", gzip.compress("one dog\n\ntwo été\r\n".encode(), mtime=0), read_sentences
    for name, content in SENTEVAL.items():
        yield (
            name,
            content,
            lambda path: load_task(_task_of(path), next(p for p in path.parents if p.name == "senteval")),
        )
    for name in (name for name in SENTEVAL if name.startswith("senteval/SICK")):
        yield name, _SICK, lambda path: load_entailment("SICKR", path.parents[1])
    yield "ATEC/ATEC.test.data", "一\t二\t1\n三\t四\t0\n".encode(), lambda path: load_task("ATEC", path.parents[1])


def _task_of(path: Path) -> str:
    return {"SICK": "SICKR", "STSBenchmark": "STSB", "STS13-en-test": "STS13"}[path.parent.name]


@pytest.mark.parametrize(("name", "content", "reader"), list(cases()), ids=[name for name, _, _ in cases()])
def test_only_user_errors_come_out(tmp_path: Path, name: str, content: bytes, reader: Reader) -> None:
    path = tmp_path / name
    for place, sound in (SENTEVAL | {name: content}).items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(sound)
    reader(path)
    rng = random.Random(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowbertWarning)
        for number in range(ROUNDS):
            spoiled = damaged(content, rng)
            path.write_bytes(spoiled)
            message = ""
            try:
                reader(path)
            except UserError as error:
                message = str(error)
            except BaseException as error:
                raise AssertionError(f"round {number}: {type(error).__name__}: {error}; {spoiled!r}") from error
            assert "\n" not in message, (number, spoiled)
