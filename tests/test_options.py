"""Every option of every command and method: another value changes something, or is refused.

Lines and values are those of options.ini.
"""

import csv
import hashlib
import io
import json
import re
from configparser import ConfigParser
from contextlib import redirect_stdout, suppress
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from experiments.small import write_corpus, write_nli, write_words
from flowbert.cli import main
from flowbert.cli.parse import TRAINER_COMMANDS, list_options
from flowbert.data.sample import sample_corpus, sample_pairs
from flowbert.io import digest_tensors
from flowbert.training.trainer_options import list_trainer_options
from helpers import draw_nothing, with_slow

pytestmark = pytest.mark.filterwarnings("ignore")

TABLE = ConfigParser(allow_no_value=True, delimiters="=")
TABLE.read(Path(__file__).with_name("options.ini"))


def write_table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def write_stsb(folder, sizes):
    """Write the first pairs of the sample as SentEval's STSB, and two tables of the last split."""
    bench = folder / "STS" / "STSBenchmark"
    bench.mkdir(parents=True)
    for split, count in sizes.items():
        pairs = sample_pairs(split)[:count]
        lines = [f"g\tf\ty\t1\t{score}\t{one}\t{two}" for one, two, score in pairs]
        (bench / f"sts-{split}.csv").write_text("\n".join(lines))
    write_table(folder / "pairs.csv", "sentence1,sentence2,score", pairs)
    write_table(folder / "columns.csv", "a,b,c", pairs)


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """A folder next to which commands run, with all the files that lines name."""
    root = tmp_path_factory.mktemp("options")
    folder, corpus = root / "given", sample_corpus()
    write_stsb(folder, {"train": 40, "dev": 20, "test": 30})
    write_stsb(folder / "other", {"train": 30, "dev": 15, "test": 29})
    write_corpus(folder / "corpus.txt", 230)
    write_corpus(folder / "short.txt", 9)
    rare = ["unhappiness in zebras", "quickness of unhappy mice", "hopelessly reworded"]
    (folder / "rare.txt").write_text("\n".join(rare * 8))
    two = zip(corpus[:230], corpus[230:460], strict=True)
    write_table(folder / "two.csv", "a,b", two)
    labels = sample_pairs("train")[50:80]
    write_table(folder / "labels.csv", "sentence1,sentence2,score", labels)
    write_nli(folder / "nli.jsonl", 300)
    write_nli(folder / "few.jsonl", 240)
    write_words(folder / "words.txt", corpus[:600])
    vectors = np.random.default_rng(0).normal(size=(50, 8))
    np.save(folder / "rows.npy", vectors.astype(np.float32))
    np.save(folder / "ranges.npy", np.full((2, 128), [[-9], [9]], np.float32))
    (root / "lines").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root / "lines")
        line = TABLE["flow"]["line"].replace(" run ", " ../given/flow ")
        main([*line.split(), "--quiet"])
    return folder


def read(path):
    """What a file says of a result; nothing of the options that made it."""
    if path.suffix == ".safetensors":
        return digest_tensors(load_file(path))
    if path.suffix == ".ckpt":
        content = torch.load(path, weights_only=True)
        return digest_tensors(content["state_dict"]), content["global_step"]
    if path.suffix == ".yaml" or ".cache" in str(path):
        return ""
    if path.name.endswith(".json") and "rows" in (kept := json.loads(path.read_text())):
        return [{**row, "experiment": ""} for row in kept["rows"]]
    if path.name == "encoder.json" and path.parts[-3:-1] != ("out", "model"):
        return ""  # elsewhere the options are written into it
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="session")
def run(given):
    """Runs lines next to the given files, equal ones once."""
    return cache(partial(run_line, given.parent))


def run_line(root, line):
    """Run a line in a new folder: its message, if it was refused; what it printed and wrote."""
    folder = Path(mkdtemp(dir=root))
    printed, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.stderr", errors)
        patch.delenv("LOCAL_RANK", raising=False)
        draw_nothing(patch)
        with redirect_stdout(printed), suppress(SystemExit):
            main([*line.split(), "--quiet"])
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".records" not in str(path):
            found = str(path.relative_to(folder))
            name = re.sub(r"[0-9a-f]{8,}|\d{6,}[.\d]*", "#", found)
            files[name] = "" if "#" in name else read(path)
    last = ["", *errors.getvalue().splitlines()][-1]
    message = last if last.startswith("error: ") else ""
    return message, (printed.getvalue(), files)


def with_options(line, options):
    """A line with other values of options."""
    words, others = line.split(), options.split()
    for name in others[::2]:
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    return " ".join([*words, *others])


def names_of(case):
    """The options of a command or method."""
    command = TABLE[case]["line"].split()[0]
    trainer = list_trainer_options() if command in TRAINER_COMMANDS else {}
    return [*list_options(command, case), *trainer]


@pytest.mark.parametrize("case", TABLE.sections())
def test_every_option_is_in_the_table(case):
    missing = {*names_of(case)} - {*TABLE[case]}
    assert [name for name in missing if not name.startswith("trainer.")] == []


@cache
def tried(case):
    """Other values of the options of a case."""
    values = {name: TABLE[case].get(name) for name in names_of(case)}
    ignored = TABLE[case]["ignored"].split()
    return {k: value for k, value in values.items() if value and k not in ignored}


def is_refused(case, name):
    return tried(case)[name].startswith("!")


def is_slow(case, name):
    """Whether the option is left to the slow run, as a rule because another case tries it."""
    refused = is_refused(case, name)
    patterns = TABLE[case]["slow"].split()
    if not refused and any(fnmatch(name, pattern) for pattern in patterns):
        return True
    having = [each for each in TABLE.sections() if name in tried(each)]
    return case != next(each for each in having if is_refused(each, name) == refused)


def fault(case, name, value, run):
    """What is wrong with an option; nothing if its value has an effect or is refused."""
    value, *beside = value.split(maxsplit=1)
    line = with_options(TABLE[case]["line"], "".join(beside))
    message, after = run(with_options(line, f"--{name} {value.removeprefix('!')}"))
    if value.startswith("!"):
        return "" if message else "is accepted"
    refused, before = run(line)  # what is beside the option may mean nothing without it
    fault = message or ("" if beside else refused)
    return fault or ("" if after != before else "has no effect")


@pytest.mark.parametrize("slow", with_slow([False, True], [False]))
@pytest.mark.parametrize("case", TABLE.sections())
def test_another_value_changes_something_or_is_refused(case, slow, run):
    values = {k: value for k, value in tried(case).items() if is_slow(case, k) == slow}
    faults = {name: fault(case, name, value, run) for name, value in values.items()}
    assert {name: fault for name, fault in faults.items() if fault} == {}
