"""Every option of every command and method: another value changes something, or is refused.

Options that a method ignores are None here.
"""

import csv
import hashlib
import io
import json
import re
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from equivalence.ways import write_task
from experiments.small import write_nli, write_words
from flowbert.cli import main
from flowbert.cli.parse import COMMANDS, TRAINER_COMMANDS, list_options
from flowbert.data.sample import sample_corpus, sample_pairs
from flowbert.io import digest_tensors
from flowbert.training.trainer_options import list_trainer_options
from helpers import draw_nothing, with_slow

pytestmark = pytest.mark.filterwarnings("ignore")

# How fast, what is shown, other options, and what a test does not have: machines, a hub, minutes.
EXEMPT = (
    "config",
    "help",
    "import",
    "quiet",
    "print_config",
    "threads",
    "encoder.device_map",
    "devices",
    "num_nodes",
    "push_to",
    "private",
    "checkpoint.every_n_steps",
    "checkpoint.every_n_minutes",
    "data.workers",
    "model.chunk_size",
    "trainer.devices",
    "trainer.enable_progress_bar",
)
# Another value of each option; one that is refused begins with "!". A value that means nothing
# without other options is beside them.
VALUES: dict[str, Any] = {
    "encoder.path": "../given/words.txt",
    "encoder.revision": None,  # of the hub
    "encoder.layers": "1",
    "encoder.pooling": "cls",
    "encoder.max_length": "5",
    "encoder.dtype": "bfloat16",
    "encoder.template": "a:{}",
    "encoder.sink_token": "[MASK]",
    "encoder.views": '[{"layers":1}]',
    "encoder.max_words": ("40", "--encoder.path ../given/words.txt"),
    "corpus": ("../given/two.csv", "--column a"),
    "nli": ("../given/nli.jsonl", "--corpus nli --nli ../given/few.jsonl"),
    "column": ("b", "--corpus ../given/two.csv"),
    "max_sentences": "23",
    "tasks": "Chinese-STS-B,../given/pairs.csv",
    "senteval": "../given/other",
    "columns": ("a,b,c", "--tasks Chinese-STS-B,../given/columns.csv"),
    "score_range": ("[0,10]", "--tasks Chinese-STS-B,../given/pairs.csv"),
    "skip_invalid": "!no",  # tests/data/test_mistakes.py has its effect
    "positive_above": "0.3",
    "uniformity_limit": "20",
    "bootstrap": "20",
    "bootstrap_seed": ("1", "--bootstrap 20"),
    "vectors": "../given/rows.npy",
    "seed": "1",
    "seeds": "1",
    "run_dir": "elsewhere",
    "ckpt_path": "!../given/corpus.txt",
    "resume": "!../given/flow",
    "cache": "elsewhere",
    "baseline": None,
    "log_to": "tensorboard",
    "device": "!cuda",
    "split": "dev",
    "model.learning_rate": "1e-2",
    "model.weight_decay": "0.5",
    "model.schedule": "constant",
    "model.warmup": "0.5",
    "model.dropout": "0.3",
    "model.frozen_layers": "1",
    "model.mask_fraction": "0.5",
    "data.held_out": "0.3",
    "data.batch_size": "7",
    "data.max_length": "5",
    "data.pool": "3",
    "trainer.accelerator": "!tpu",
    "trainer.precision": "64-true",
    "trainer.logger": "true",
    "trainer.fast_dev_run": "true",
    "trainer.max_epochs": "2",
    "trainer.max_steps": "2",
    "trainer.max_time": "00:00:00:00",
    "trainer.limit_train_batches": "1",
    "trainer.limit_val_batches": "0",
    "trainer.overfit_batches": "1",
    "trainer.check_val_every_n_epoch": "2",
    "trainer.log_every_n_steps": "1",
    "trainer.enable_checkpointing": "!false",
    "trainer.accumulate_grad_batches": "2",
    "trainer.gradient_clip_val": "1e-3",
    "trainer.barebones": "!true",
}
OF_TRAINER = [name for name in VALUES if name.startswith("trainer.")]
ONE_READING = {
    "encoder.path": "!../given/words.txt",
    "encoder.views": '![{"layers":1}]',
    "encoder.max_words": None,
}
TRAINED_ENCODER = {
    **ONE_READING,
    "vectors": None,
    "encoder.dtype": "!bfloat16",
    "trainer.precision": "bf16-mixed",
}
# None: a configuration holds it for another command.
PREDICT = dict.fromkeys(OF_TRAINER) | {
    "trainer.accelerator": "!tpu",
    "trainer.precision": "64-true",
    "corpus": "!../given/short.txt",
    "vectors": "!../given/rows.npy",
}
AFTER = {**PREDICT, "trainer.logger": "true"}
# Where a command or method differs.
OTHERS: dict[str, dict[str, Any]] = {
    "whitening": {
        "method": "raw",
        "ckpt_path": None,
        **dict.fromkeys(OF_TRAINER),
        "trainer.accelerator": "!tpu",
    },
    "flow": {
        "method": "mlm",
        "baseline": "zca",
        "model.levels": "1",
        "model.depth": "1",
        "model.width": "8",
        "model.mixing": "random",
        "model.coupling": "affine",
        "model.mixing_init": "rotation",
        "model.init": "whitening",
        "model.prior": "examples.extend.prior.StudentT",
        "model.noise": "0.5",
        "data.init_size": "8",
    },
    "simcse": {
        **TRAINED_ENCODER,
        "method": "mlm",
        "model.loss": "infonce:temperature=1",
        "model.head": "none",
        "model.head_refit_every": ("1", "--model.head whitening:shrinkage=0.3"),
        "model.mlm_weight": "0.5",
        "model.mask_fraction": ("0.5", "--model.mlm_weight 0.5"),
        "data.positive": "crop:rate=0.5",
    },
    "sbert": {
        **TRAINED_ENCODER,
        "method": "mlm",
        "corpus": None,
        "column": None,
        "nli": "../given/nli.jsonl",
        "model.objective": "triplet",
        "model.margin": ("0.1", "--model.objective triplet"),
        "data.drop_overlap": "!true",
    },
    "mlm": {
        **TRAINED_ENCODER,
        "method": "simcse",
        # In a corpus of words of one piece it changes nothing alone.
        "model.whole_words": ("true", "--corpus ../given/rare.txt"),
        "model.cosreg_weight": "1",
        "model.head_only": "true",
    },
    # Own files have no development split.
    "validate": {
        **AFTER,
        "tasks": "!../given/pairs.csv",
        "columns": None,
        "score_range": None,
        "skip_invalid": None,
    },
    "test": AFTER,
    "predict": PREDICT,
    "compare": {
        "methods": "zca",
        "labels": ("../given/labels.csv", "--methods learned-removal-4"),
        "drop_overlap": None,
        "seeds": ("1", "--methods flow"),
        "format": "latex",
        "output": "other.json",
    },
    # It recommends layers and pooling.
    "advise": {**ONE_READING, "encoder.layers": None, "encoder.pooling": None},
    "analyze": {
        "methods": "raw,zca",
        "limit": "59",
        "measures": "isotropy",
        "output": "other.analysis.json",
    },
    "encode": {
        "sentences": "!a",
        "vectors": "!../given/rows.npy",
        "input": "../given/other.txt",
        "column": ("b", "--input ../given/two.csv"),
        "model": "../given/flow",
        # Raw vectors are what an encoder gives.
        "method": ("raw", "--model ../given/flow"),
        "precision": "binary",
        "ranges": ("../given/ranges.npy", "--precision int8"),
        "output": "other.npy",
    },
    "export": {
        "to": "other",
        "format": "!pickle",
        "method": "raw",
        "encoder": "!../given/words.txt",
        "results": "!../given/other.json",
        "license": "mit",
    },
    "reproduce": {
        "rows": "mteb",
        "encoder": "!../given/words.txt",
        # Named with any rows, as SentEval's folder is.
        "nli": (
            "../given/nli.jsonl",
            "--rows li2020-2-bert-base-uncased-flow-nli --nli ../given/few.jsonl",
        ),
        "tasks": "!SICKR",
        "output": "other.json",
        "explain": "li2020",
    },
    "report": {"output": "other.html"},
}

SMALL = "--senteval ../given --bootstrap 0"
TASK = f"--tasks Chinese-STS-B --max_sentences 24 {SMALL}"
DATA = f"{TASK} --corpus ../given/corpus.txt"
EPOCH = "--run_dir run --data.batch_size 8 --trainer.max_epochs 1"
ROWS = "li2020-2-bert-base-uncased-first-last,li2020-2-bert-base-uncased-flow-target"
# A line of each command and method, by the time that it takes: an option of several is tried with
# the first alone.
LINES = {
    "encode": "encode --input ../given/short.txt --output v.npy",
    "report": "report ../given/flow --output r.html",
    "compare": f"compare --methods whitening:shrinkage=0.1 {DATA} --output r.json",
    "advise": "advise --corpus ../given/corpus.txt",
    "analyze": "analyze --methods raw --corpus ../given/corpus.txt --limit 60 "
    "--tasks Chinese-STS-B --senteval ../given --output a.analysis.json",
    "export": "export ../given/flow --to out",
    "reproduce": f"reproduce --rows {ROWS} --encoder builtin-sample {SMALL} "
    "--tasks STSB --output r.json",
    "whitening": f"fit --method whitening:shrinkage=0.1 --run_dir run {DATA}",
    "flow": f"fit --method flow {EPOCH} {DATA}",
    "simcse": f"fit --method simcse {EPOCH} {DATA}",
    "mlm": f"fit --method mlm {EPOCH} {DATA}",
    "sbert": f"fit --method sbert {EPOCH} {TASK} --nli ../given/few.jsonl",
    "validate": "validate ../given/flow --run_dir run",
    "test": "test ../given/flow --run_dir run",
    "predict": "predict ../given/flow --run_dir run",
}


def write_table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """A folder next to which commands run, with all the files that lines name."""
    root = tmp_path_factory.mktemp("options")
    folder = write_task(root / "given", {"train": 40, "dev": 20, "test": 30})
    write_task(folder / "other", {"train": 30, "dev": 15, "test": 29})
    corpus = sample_corpus()
    rare = ["unhappiness in zebras", "quickness of unhappy mice", "hopelessly reworded"]
    texts = {"corpus": corpus[:230], "short": corpus[:9], "other": corpus[9:18]}
    for name, lines in {**texts, "rare": rare * 8}.items():
        (folder / f"{name}.txt").write_text("\n".join(lines))
    write_table(
        folder / "two.csv", "a,b", zip(corpus[:230], corpus[230:460], strict=True)
    )
    labels = sample_pairs("train")[50:80]
    write_table(folder / "labels.csv", "sentence1,sentence2,score", labels)
    for name, count in {"nli": 300, "few": 240}.items():
        write_nli(folder / f"{name}.jsonl", count)
    write_words(folder / "words.txt", corpus[:600])
    vectors = np.random.default_rng(0).normal(size=(50, 8))
    np.save(folder / "rows.npy", vectors.astype(np.float32))
    np.save(folder / "ranges.npy", np.full((2, 128), [[-9], [9]], np.float32))
    for place in (folder, folder / "other"):
        bench = place / "STS" / "STSBenchmark"
        bench.mkdir(parents=True)
        for split in ("train", "dev", "test"):
            pairs = (place / "STS-B" / f"STS-B.{split}.tsv").read_text().splitlines()
            rows = [line.split("\t") for line in pairs]
            lines = ["\t".join(["g", "f", "y", "1", c, a, b]) for a, b, c in rows]
            (bench / f"sts-{split}.csv").write_text("\n".join(lines))
            if split == "test":
                write_table(place / "pairs.csv", "sentence1,sentence2,score", rows)
                write_table(place / "columns.csv", "a,b,c", rows)
    with pytest.MonkeyPatch.context() as patch:
        (root / "lines").mkdir()
        patch.chdir(root / "lines")
        main([*LINES["flow"].replace(" run ", " ../given/flow ").split(), "--quiet"])
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


@pytest.fixture(scope="session")
def run(given):
    """Runs lines next to the given files, equal ones once."""
    return cache(partial(run_line, given.parent))


def with_options(line, options):
    """A line with other values of options."""
    words, others = line.split(), options.split()
    for name in others[::2]:
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    return " ".join([*words, *others])


def entry(case, name):
    """Another value of an option in a case, and the options beside it."""
    value = OTHERS[case].get(name, VALUES.get(name))
    return (value,) if value is None or isinstance(value, str) else value


def is_refused(case, name):
    return entry(case, name)[0].startswith("!")


def names_of(case):
    command = LINES[case].split()[0]
    names = list(list_trainer_options()) if command in TRAINER_COMMANDS else []
    names += list_options(command, case if case in OTHERS else "flow")
    return [
        name for name in names if name not in (*EXEMPT, COMMANDS[command].positional)
    ]


def tried(case):
    return [name for name in names_of(case) if entry(case, name)[0] is not None]


OF_DEFAULT = ("trainer.max_steps", "trainer.precision", "trainer.logger")
"""Options of Lightning's Trainer in the default run: all take the same way."""

TRAININGS = ("simcse", "mlm", "sbert", "export")
"""They train an encoder or check a folder: effects of their options are left to the slow run."""


def is_slow(case, name):
    """Whether a pair is left to the slow run, as a rule because a faster case has the option."""
    if case == "flow" and name.startswith("trainer.") and name not in OF_DEFAULT:
        return True
    kind = is_refused(case, name)
    is_model = case == "flow" and name.startswith("model.")
    if not kind and (case in TRAININGS or is_model):
        return True
    return case != next(
        each for each in LINES if name in tried(each) and is_refused(each, name) == kind
    )


@pytest.mark.parametrize("case", LINES)
def test_every_option_is_in_the_table(case):
    names = names_of(case)
    assert set(OTHERS[case]) <= {*names, *OF_TRAINER, *PREDICT}
    missing = [name for name in names if name not in {*OTHERS[case], *VALUES}]
    assert [name for name in missing if not name.startswith("trainer.")] == []


def fault(case, name, run):
    """What is wrong with an option; nothing if its value has an effect or is refused."""
    value, *beside = entry(case, name)
    line = with_options(LINES[case], "".join(beside))
    message, after = run(with_options(line, f"--{name} {value.removeprefix('!')}"))
    if is_refused(case, name):
        return "" if message else "is accepted"
    refused, before = run(line)  # what is beside the option may mean nothing without it
    fault = message or ("" if beside else refused)
    return fault or ("" if after != before else "has no effect")


@pytest.mark.parametrize("slow", with_slow([False, True], [False]))
@pytest.mark.parametrize("case", LINES)
def test_another_value_changes_something_or_is_refused(case, slow, run):
    names = [name for name in tried(case) if is_slow(case, name) == slow]
    faults = {name: fault(case, name, run) for name in names}
    assert {name: fault for name, fault in faults.items() if fault} == {}
