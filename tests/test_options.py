"""Every option of every command and method: another value changes something, or is refused."""

import csv
import hashlib
import io
import itertools
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from equivalence.ways import write_task
from experiments.small import write_nli
from flowbert.cli import main
from flowbert.cli.options import option_names
from flowbert.data.sample import (
    sample_corpus,
    sample_pairs,
)
from flowbert.io import digest_tensors
from helpers import draw_nothing

pytestmark = pytest.mark.filterwarnings("ignore")


class Change(NamedTuple):
    """A value that changes what a command writes or prints.

    Args:
        value: Another value than the default.
        beside: Options without which it means nothing; it is refused without them.
        alone: Why it is accepted without them.
    """

    value: str
    beside: str = ""
    alone: str = ""


class Refused(NamedTuple):
    """A value that is refused."""

    value: str


class Exempt(NamedTuple):
    """An option that changes nothing here, and why."""

    reason: str


Table = Mapping[str, Change | Refused | Exempt]

CONFIGURATION = "a configuration holds it for another method or command"
SPEED = Exempt("how fast, not what")
SHOWN = Exempt("what is shown while a command runs")
MACHINES = Exempt(
    "devices and machines that a test has not; tests/equivalence/test_processes.py"
)

ALL: Table = {
    "config": Exempt("other options; tests/test_cli.py runs every configuration"),
    "help": Exempt("tests/test_cli.py"),
    "import": Exempt("code of a user's own; tests/test_extending.py"),
    "quiet": SHOWN,
    "print_config": Exempt("prints all options and stops; jsonargparse's own"),
}
COMPUTING: Table = {
    **ALL,
    "threads": Exempt("how fast, not what; tests/test_threads.py"),
}
ENCODER: Table = {
    "encoder.path": Change("../given/words.txt"),
    "encoder.revision": Refused("main"),
    "encoder.layers": Change("1"),
    "encoder.pooling": Change("cls"),
    "encoder.max_length": Change("5"),
    "encoder.dtype": Change("bfloat16"),
    "encoder.template": Change("a:{}"),
    "encoder.views": Change('[{"layers":1}]'),
    "encoder.max_words": Change("40", "--encoder.path ../given/words.txt"),
}
SOURCES: Table = {
    "corpus": Change("../given/two.csv", "--column a"),
    "nli": Change("../given/nli.jsonl", "--corpus nli --nli ../given/few.jsonl"),
    "column": Change("b", "--corpus ../given/two.csv"),
    "max_sentences": Change("23"),
    "tasks": Change("STS-B,../given/pairs.csv"),
    "senteval": Change("../given/other"),
}
MEASURING: Table = {
    "columns": Change("a,b,c", "--tasks STS-B,../given/columns.csv"),
    "score_range": Change("[0,10]", "--tasks STS-B,../given/pairs.csv"),
    "positive_above": Change("0.3"),
    "uniformity_limit": Change("20"),
    "bootstrap": Change("20"),
    "bootstrap_seed": Change("1"),
}
FIT: Table = {
    **COMPUTING,
    **ENCODER,
    **SOURCES,
    **MEASURING,
    "vectors": Refused("../given/rows.npy"),
    "seed": Change("1"),
    "run_dir": Change("elsewhere"),
    "ckpt_path": Refused("../given/corpus.txt"),
    "resume": Refused("../given/flow"),
    "cache": Change("elsewhere"),
}
CHECKPOINT: Table = {
    "checkpoint.every_n_steps": Exempt("when, not what; tests/training/test_resume.py"),
    "checkpoint.every_n_minutes": Exempt("minutes that a test does not take"),
}
MODEL: Table = {
    "model.learning_rate": Change("1e-2"),
    "model.weight_decay": Change("0.5"),
    "model.schedule": Change("constant"),
    "model.warmup": Change("0.5"),
}
BATCHES: Table = {
    "data.held_out": Change("0.3"),
    "data.batch_size": Change("7"),
    "data.workers": SPEED,
}
TIMED = (
    "--model.schedule constant --model.warmup 0 --trainer.max_epochs -1 "
    "--trainer.max_time 00:00:00:00"
)
# Those that a run refuses or records; the others are passed on to Lightning as they are.
TRAINER: Table = {
    "trainer.accelerator": Refused("tpu"),
    "trainer.devices": MACHINES,
    "trainer.precision": Change("64-true"),
    "trainer.logger": Change("true"),
    "trainer.fast_dev_run": Change("true"),
    "trainer.max_epochs": Change("2"),
    "trainer.min_epochs": Change(
        "2", TIMED, alone="a run that nothing ends earlier has them"
    ),
    "trainer.max_steps": Change("2"),
    "trainer.max_time": Change("00:00:00:00"),
    "trainer.limit_train_batches": Change("1"),
    "trainer.limit_val_batches": Change("0"),
    "trainer.overfit_batches": Refused("1"),
    "trainer.check_val_every_n_epoch": Change("2"),
    "trainer.log_every_n_steps": Change("1"),
    "trainer.enable_checkpointing": Refused("false"),
    "trainer.enable_progress_bar": SHOWN,
    "trainer.accumulate_grad_batches": Change("2"),
    "trainer.gradient_clip_val": Change("1e-3"),
    "trainer.barebones": Refused("true"),
}
TEXT: Table = {
    **BATCHES,
    "data.max_length": Change("5"),
    "data.pool": Change("3"),
}
TRAINED_ENCODER: Table = {
    **CHECKPOINT,
    **MODEL,
    **TEXT,
    **TRAINER,
    "baseline": Refused("zca"),
    "log_to": Change("tensorboard"),
    "encoder.path": Refused("../given/words.txt"),
    "encoder.dtype": Refused("bfloat16"),
    "encoder.views": Refused('[{"layers":1}]'),
    "encoder.max_words": Refused("40"),
    "model.dropout": Change("0.3"),
    "trainer.precision": Change("bf16-mixed"),
}
METHODS: dict[str, Table] = {
    "whitening": {
        "method": Change("raw"),
        "baseline": Refused("zca"),
        "log_to": Change("tensorboard"),
        **dict.fromkeys(TRAINER, Refused("1")),
        "trainer.accelerator": Refused("tpu"),
        "trainer.devices": MACHINES,
        "trainer.enable_progress_bar": SHOWN,
    },
    "flow": {
        "method": Change("mlm"),
        **CHECKPOINT,
        **MODEL,
        **BATCHES,
        **TRAINER,
        "baseline": Change("zca"),
        "log_to": Change("tensorboard"),
        "model.levels": Change("1"),
        "model.depth": Change("1"),
        "model.width": Change("8"),
        "model.mixing": Change("random"),
        "model.coupling": Change("affine"),
        "model.mixing_init": Change("rotation"),
        "model.init": Change("whitening"),
        "model.noise": Change("0.5"),
        "data.init_size": Change("8"),
    },
    "simcse": {
        **TRAINED_ENCODER,
        "method": Change("mlm"),
        "model.loss": Change("infonce:temperature=1"),
        "model.head": Change("none"),
        "model.head_refit_every": Change("1", "--model.head whitening:shrinkage=0.3"),
        "model.mlm_weight": Change("0.5"),
        "model.mask_fraction": Change("0.5", "--model.mlm_weight 0.5"),
        "model.chunk_size": SPEED,
        "data.positive": Change("crop:rate=0.5"),
    },
    "sbert": {
        **TRAINED_ENCODER,
        "method": Refused("mlm"),
        "corpus": Refused("../given/corpus.txt"),
        "column": Refused("a"),
        "nli": Change("../given/nli.jsonl"),
        "model.objective": Change("triplet"),
        "model.margin": Change("0.1", "--model.objective triplet"),
        "model.chunk_size": SPEED,
        "data.drop_overlap": Refused("true"),
    },
    "mlm": {
        **TRAINED_ENCODER,
        "method": Change("simcse"),
        "model.mask_fraction": Change("0.5"),
        "model.whole_words": Change(
            "true", "--corpus ../given/rare.txt", "words of one piece"
        ),
        "model.cosreg_weight": Change("1"),
        "model.head_only": Change("true"),
    },
    "distillation": {
        **TRAINED_ENCODER,
        "method": Refused("mlm"),
        "model.objective": Change("listwise"),
        "model.student_temperature": Change("0.5", "--model.objective listwise"),
        "model.teacher_temperature": Change("0.5", "--model.objective listwise"),
        "model.queue_size": Change("3", "--model.objective listwise"),
        "model.chunk_size": SPEED,
        "data.teacher": Change("builtin-sample"),
    },
}
_OF_A_FIT = Exempt(CONFIGURATION)
PREDICT: Table = {
    **COMPUTING,
    **dict.fromkeys(TRAINER, _OF_A_FIT),
    "trainer.accelerator": Refused("tpu"),
    "trainer.max_epochs": Refused("2"),
    "trainer.precision": Change("64-true"),
    "ckpt_path": Refused("../given/corpus.txt"),
    "corpus": Refused("../given/short.txt"),
    "vectors": Refused("../given/rows.npy"),
    "run_dir": Change("elsewhere"),
    "cache": Change("elsewhere"),
}
AFTER: Table = {
    **PREDICT,
    **MEASURING,
    "log_to": Change("tensorboard"),
    "tasks": SOURCES["tasks"],
    "senteval": SOURCES["senteval"],
    "trainer.logger": Change("true"),
}
VALIDATE: Table = {
    **AFTER,
    "tasks": Refused("../given/pairs.csv"),  # own files have no development split
    "columns": Refused("a,b,c"),
    "score_range": Refused("[0,10]"),
}
AFTERWARDS = {"validate": VALIDATE, "test": AFTER, "predict": PREDICT}
COMPARE: Table = {
    **COMPUTING,
    **ENCODER,
    **SOURCES,
    "methods": Change("zca"),
    "split": Change("dev"),
    **MEASURING,
    "labels": Change("../given/labels.csv", "--methods learned-removal-4"),
    "drop_overlap": Refused("true"),
    "seeds": Change("1", "--methods flow"),
    "bootstrap": Change("20"),
    "bootstrap_seed": Change("1", "--bootstrap 20"),
    "output": Change("other.json"),
    "cache": Change("elsewhere"),
    "device": Refused("cuda"),
}
ADVISE: Table = {
    **COMPUTING,
    **ENCODER,
    **{name: SOURCES[name] for name in ("corpus", "nli", "column")},
    "encoder.path": Refused("../given/words.txt"),
    "encoder.views": Refused('[{"layers":1}]'),
    "encoder.max_words": Refused("40"),
    "encoder.layers": Refused("1"),
    "encoder.pooling": Refused("cls"),
    "cache": Change("elsewhere"),
    "device": Refused("cuda"),
}
ANALYZE: Table = {
    **COMPUTING,
    **ENCODER,
    **{
        name: SOURCES[name] for name in ("corpus", "nli", "column", "tasks", "senteval")
    },
    "columns": MEASURING["columns"],
    "methods": Change("raw,zca"),
    "limit": Change("59"),
    "split": Change("dev"),
    "measures": Change("isotropy"),
    "map": Refused("tsne"),
    "seed": Change("1"),
    "output": Change("other.analysis.json"),
    "cache": Change("elsewhere"),
    "device": Refused("cuda"),
}
ENCODE: Table = {
    **COMPUTING,
    **ENCODER,
    "sentences": Refused("a"),
    "input": Change("../given/other.txt"),
    "column": Change("b", "--input ../given/two.csv"),
    "vectors": Refused("../given/rows.npy"),
    "model": Change("../given/flow"),
    "method": Change("raw", "--model ../given/flow", "what an encoder gives"),
    "precision": Change("binary"),
    "output": Change("other.npy"),
    "device": Refused("cuda"),
    "devices": MACHINES,
    "num_nodes": MACHINES,
}
EXPORT: Table = {
    **COMPUTING,
    "to": Change("other"),
    "format": Refused("pickle"),
    "servable": Refused("true"),  # of a flow
    "method": Change("raw"),
    "encoder": Refused("../given/words.txt"),
    "results": Refused("../given/other.json"),
    "license": Change("mit"),
    "push_to": Exempt("the hub; tests/exports/test_upload.py"),
    "private": Exempt("the hub; tests/exports/test_upload.py"),
}
IMPORT: Table = {
    **ALL,
    **ENCODER,
    "encoder.path": Refused("../given/words.txt"),
    "encoder.views": Refused('[{"layers":1}]'),
    "encoder.max_words": Refused("40"),
    "output": Change("other"),
    "scale": Change("2"),
}
REPRODUCE: Table = {
    **COMPUTING,
    "rows": Change("mteb"),
    "encoder": Refused("../given/words.txt"),
    "senteval": Change("../given/other"),
    "nli": Change(
        "../given/nli.jsonl",
        "--rows li2020-2-bert-base-uncased-flow-nli --nli ../given/few.jsonl",
        "named beside any rows, as SentEval's folder is",
    ),
    "tasks": Refused("SICKR"),
    "seeds": Change("1"),
    "bootstrap": Change("20"),
    "bootstrap_seed": Change("1", "--bootstrap 20"),
    "output": Change("other.json"),
    "cache": Change("elsewhere"),
    "device": Refused("cuda"),
    "explain": Change("li2020"),
}
REPORT: Table = {**ALL, "output": Change("other.html")}

TASK = "--tasks STS-B --senteval ../given --max_sentences 24"
DATA = f"{TASK} --corpus ../given/corpus.txt"
EPOCH = "--run_dir run --data.batch_size 8 --trainer.max_epochs 1"
ROWS = "li2020-2-bert-base-uncased-first-last,li2020-2-bert-base-uncased-flow-target"
METHODS_WITH_A_TRAINER = ("flow", "simcse", "sbert", "mlm", "distillation")
CASES: dict[str, tuple[str, Table]] = {
    **{
        method: (f"fit --method {method} {EPOCH} {DATA}", {**FIT, **METHODS[method]})
        for method in METHODS_WITH_A_TRAINER
    },
    "sbert": (
        f"fit --method sbert {EPOCH} {TASK} --nli ../given/few.jsonl",
        {**FIT, **METHODS["sbert"]},
    ),
    "distillation": (
        f"fit --method distillation {EPOCH} {DATA} --data.teacher ../given/flow",
        {**FIT, **METHODS["distillation"]},
    ),
    "whitening": (
        f"fit --method whitening:shrinkage=0.1 --run_dir run {DATA}",
        {**FIT, **METHODS["whitening"]},
    ),
    **{
        command: (
            f"{command} ../given/flow --run_dir run",
            table,
        )
        for command, table in AFTERWARDS.items()
    },
    "compare": (
        f"compare --methods whitening:shrinkage=0.1 {DATA} --bootstrap 0 --output r.json",
        COMPARE,
    ),
    "advise": ("advise --corpus ../given/corpus.txt", ADVISE),
    "analyze": (
        "analyze --methods raw --corpus ../given/corpus.txt --limit 60 --tasks STS-B "
        "--senteval ../given --output a.analysis.json",
        ANALYZE,
    ),
    "encode": ("encode --input ../given/short.txt --output v.npy", ENCODE),
    "export": ("export ../given/flow --to out", EXPORT),
    "import_whitening": (
        "import_whitening ../given/kernel.npz --encoder.layers last --encoder.pooling mean "
        "--output out",
        IMPORT,
    ),
    "reproduce": (
        f"reproduce --rows {ROWS} --encoder builtin-sample --senteval ../given --tasks STSB "
        "--bootstrap 0 --output r.json",
        REPRODUCE,
    ),
    "report": ("report ../given/flow --output r.html", REPORT),
}
"""A line for each command and method, and what each option does to it."""


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """A folder beside which runs are made, with all the files that lines name."""
    root = tmp_path_factory.mktemp("options")
    folder = write_task(root / "given", {"train": 40, "dev": 20, "test": 30})
    write_task(root / "given" / "other", {"train": 30, "dev": 15, "test": 29})
    corpus = sample_corpus()
    (folder / "corpus.txt").write_text("\n".join(corpus[:230]))
    (folder / "short.txt").write_text("\n".join(corpus[:9]))
    rare = ["unhappiness in zebras", "quickness of unhappy mice", "hopelessly reworded"]
    (folder / "rare.txt").write_text("\n".join(rare * 8))
    (folder / "other.txt").write_text("\n".join(corpus[9:18]))
    pairs = (folder / "STS-B" / "STS-B.test.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in pairs]
    for name, header in {
        "pairs": "sentence1,sentence2,score",
        "columns": "a,b,c",
    }.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header.split(","), *rows])
    table = [("a", "b"), *zip(corpus[:230], corpus[230:460], strict=True)]
    with (folder / "two.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)
    with (folder / "labels.csv").open("w", newline="") as file:
        written = csv.writer(file)
        written.writerows([("sentence1", "sentence2", "score")])
        written.writerows(sample_pairs("train")[50:80])
    for name, count in {"nli": 300, "few": 240}.items():
        write_nli(folder / f"{name}.jsonl", count)
    words = sorted({word for text in corpus[:600] for word in text.lower().split()})
    rng = np.random.default_rng(0)
    lines = [" ".join([word, *map(str, rng.normal(size=8).round(3))]) for word in words]
    (folder / "words.txt").write_text("\n".join(lines))
    np.save(folder / "rows.npy", rng.normal(size=(50, 8)).astype(np.float32))
    np.savez(folder / "kernel.npz", kernel=rng.normal(size=(128, 8)), bias=np.ones(128))
    for root_of in (folder, folder / "other"):
        bench = root_of / "STS" / "STSBenchmark"
        bench.mkdir(parents=True)
        for split in ("train", "dev", "test"):
            pairs = (root_of / "STS-B" / f"STS-B.{split}.tsv").read_text().splitlines()
            rows = [line.split("\t") for line in pairs]
            lines = ["\t".join(["g", "f", "y", "1", c, a, b]) for a, b, c in rows]
            (bench / f"sts-{split}.csv").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        made = root / "lines"
        made.mkdir()
        patch.chdir(made)
        line = CASES["flow"][0].replace("--run_dir run", "--run_dir ../given/flow")
        main([*line.split(), "--quiet"])
    return folder


class Outcome(NamedTuple):
    """What a line did.

    Args:
        refused: Its message, if it was refused.
        printed: What it printed.
        files: What each file says, by its name.
    """

    refused: str
    printed: str
    files: dict[str, Any]

    def differs(self, other):
        return self[1:] != other[1:]


def read_checkpoint(path):
    """Weights, step and number of states: no options, which say themselves that they changed."""
    content = torch.load(path, weights_only=True)
    return digest_tensors(content["state_dict"]), content["global_step"]


READERS: dict[str, Any] = {
    ".safetensors": lambda path: digest_tensors(load_file(path)),
    ".ckpt": read_checkpoint,
    ".yaml": lambda _: "",
}


def read(path):
    """What a file says of a result; nothing of the options that made it."""
    if ".records" in str(path) or ".cache" in str(path):
        return ""
    if path.name.endswith(".json") and "rows" in (kept := json.loads(path.read_text())):
        return [{**row, "experiment": ""} for row in kept["rows"]]
    if (
        path.name == "encoder.json"
    ):  # of a kernel that is imported; else it is written down
        return path.read_text() if path.parts[-3:-1] == ("out", "model") else ""
    if path.suffix in READERS:
        return READERS[path.suffix](path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Lines:
    """Runs lines, each in a folder of its own; equal lines once."""

    def __init__(self, given):
        self.root = given.parent
        self._outcomes: dict[str, Outcome] = {}
        self._numbers = itertools.count()

    def outcome(self, line):
        if line not in self._outcomes:
            self._outcomes[line] = self._run(line)
        return self._outcomes[line]

    def _run(self, line):
        folder = self.root / f"line-{next(self._numbers)}"
        folder.mkdir()
        printed, errors = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr("sys.stderr", errors)
            patch.delenv("LOCAL_RANK", raising=False)
            draw_nothing(patch)
            with redirect_stdout(printed), suppress(SystemExit):
                main([*line.split(), "--quiet"])
        last = ["", *errors.getvalue().splitlines()][-1]
        refused = last if last.startswith("error: ") else ""
        names = {
            re.sub(
                r"[0-9a-f]{8,}|\d{6,}[.\d]*", "#", str(path.relative_to(folder))
            ): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and ".records" not in str(path)
        }
        files = {
            name: "" if "#" in name else read(path) for name, path in names.items()
        }
        return Outcome(refused, printed.getvalue(), files)


@pytest.fixture(scope="session")
def lines(given):
    return Lines(given)


def with_option(line, name, value):
    """A line with another value of an option."""
    words = line.split()
    if f"--{name}" in words:
        place = words.index(f"--{name}")
        del words[place : place + 2]
    return " ".join([*words, f"--{name}", value])


def with_options(line, options):
    words = options.split()
    for name, value in zip(words[::2], words[1::2], strict=True):
        line = with_option(line, name.removeprefix("--"), value)
    return line


# Cases by the time that a line takes: an option of several is tried with the first alone.
BY_TIME = (
    *("report", "compare", "encode", "advise", "analyze", "import_whitening", "export"),
    *("reproduce", "whitening", "flow", "simcse", "mlm", "sbert", "distillation"),
    *AFTERWARDS,
)


OF_TRAINER = ("trainer.max_steps", "trainer.precision", "trainer.logger")
"""Options of Lightning's Trainer in the default run: all take the same way."""

SLOW = ("simcse", "mlm", "sbert", "distillation", "export")
"""They train an encoder or check a folder: effects of their options are left to the slow run."""


def is_slow(case, name):
    """Whether a pair is left to the slow run, as a rule because a faster case has the option."""
    if case == "flow" and name.startswith("trainer.") and name not in OF_TRAINER:
        return True
    kind = type(CASES[case][1][name])
    slow = case in SLOW or (case == "flow" and name.startswith("model."))
    if kind is Change and slow:
        return True
    return case != next(
        each for each in BY_TIME if isinstance(CASES[each][1].get(name), kind)
    )


@pytest.mark.parametrize("case", CASES)
def test_every_option_is_in_the_table(case):
    line, table = CASES[case]
    method = case if case in METHODS else "flow"
    names = set(option_names(line.split()[0], method))
    assert set(table) <= names
    assert all(name.startswith("trainer.") for name in names - set(table))


def fault(line, name, effect, lines):
    """What is wrong with an option; nothing if its value has an effect or is refused."""
    if isinstance(effect, Exempt):
        return ""
    changed = with_option(line, name, effect.value)
    if isinstance(effect, Refused):
        return "" if lines.outcome(changed).refused else "is accepted"
    before = lines.outcome(line)
    if before.refused:
        return before.refused
    if effect.beside:
        alone = lines.outcome(changed)
        if not (effect.alone or alone.refused or alone.differs(before)):
            return "is accepted alone"
        line = with_options(line, effect.beside)
        before = lines.outcome(line)
        changed = with_option(line, name, effect.value)
    outcome = lines.outcome(changed)
    return outcome.refused or ("" if outcome.differs(before) else "has no effect")


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_another_value_changes_something_or_is_refused(case, slow, lines):
    line, table = CASES[case]
    names = [name for name in table if is_slow(case, name) == slow]
    faults = {name: fault(line, name, table[name], lines) for name in names}
    assert {name: fault for name, fault in faults.items() if fault} == {}
