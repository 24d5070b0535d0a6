"""The command line: names, mistakes, help, configurations."""

import errno
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import NoneType
from typing import Any, get_origin

import pytest
import yaml
from sklearn.decomposition import PCA

import flowbert
from equivalence.ways import write_task
from experiments.small import write_pairs
from flowbert.cli import main
from flowbert.cli.parse import (
    COMMANDS,
    list_options,
    read_line,
    read_options,
    read_value,
)
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, choose_device
from flowbert.methods import FlowModule
from flowbert.options import (
    TRAINED_METHODS,
    CompareOptions,
    FitOptions,
    config_of,
    config_text,
)
from flowbert.tasks import Pairs
from flowbert.training.trainer_options import read_trainer_options
from helpers import draw_nothing

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))

# The words of a line, and what its message matches after "error: ".
MISTAKES = [
    ("fti", "command: received 'fti'.*did you mean 'fit'"),
    ("fit --model.levls 3", "--model.levls: no such option.*--model.levels"),
    ("fit --levels 3", "--levels: no such option.*--model.levels"),
    ("fit --epochs 3", "--epochs: no such option.*--trainer.max_epochs"),
    ("compare --score_range 0-5", "--score_range: received 0-5.* a list such as 0,5"),
    ("compare --help model", "--help: received 'model'; expected encoder"),
    ("fit --data.corpus a.txt", "--data.corpus: no such option.*--corpus"),
    ("fit --config typo.yaml", "typo.yaml: trainer.max_epoch.*max_epochs"),
    ("fit --config null.yaml", "--seed: received null; expected a whole number"),
    ("fit --config list.yaml", "list.yaml: received"),
    ("fit --config", "--config: received nothing"),
    ("fit --corpus mising.txt", "mising.txt: no such file.*'missing.txt'"),
    ("fit --encoder.max_length x", "--encoder.max_length: received x.*number"),
    ("fit --model.levels x", "--model.levels: received x.*a whole number"),
    ("fit --method flwo", "--method: received 'flwo'.*did you mean 'flow'"),
    ("fit --run_dir done", "--run_dir: done holds a finished run"),
    ("fit --trainer.callbacks+ EarlyStoping", "--trainer.callbacks: received EarlyS"),
    ("fit --trainer 5", "--trainer: is a group.*--trainer.max_epochs"),
    (
        "fit --run_dir stopped",
        "--run_dir: stopped holds checkpoints .*--resume stopped",
    ),
    ("fit --resume", "--resume: received nothing"),
    ("fit --resume stopped --seed 1", "--seed: received 1.*trainer.max_epochs"),
    ("test", "required: --run"),
    ("test done --model.noise 1", "--model.noise: no such option"),
    (
        "fit --ckpt_path best --run_dir stopped",
        "--ckpt_path: received .*best.ckpt; no such",
    ),
    ("encode --output v.npy", "--input: received 0"),
    ("export", "required: --model, --to"),
    ("compare --tasks wrong.csv", "--columns: wrong.csv: has the columns a, b, c"),
    ("compare --labels wrong.csv --columns a,b,d --methods learned-removal", "d"),
    (
        "encode --input missing.txt --output v.npy --encoder ./stoped",
        "did you mean 'st",
    ),
    ("fit --output a.json", "--output: no such option.*--run_dir"),
    ("fit --gpus 2", "--gpus: no such option.*--trainer.devices"),
    ("fit --data.max_lenght 9 --method mlm", "mean '--data.max_length' or '--encoder."),
    ("--quiet compare", "--quiet: received before the command.*COMMAND --quiet"),
    ("advise --corpus mising.txt", "mising.txt: no such file.*'missing.txt'"),
    ("advise --corpus trget", "corpus: received 'trget'.*did you mean 'target'"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a few files to mistake for others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "missing.txt").write_text("A sentence.\n")
    (tmp_path / "wrong.csv").write_text("a,b,c\nx,y,1\nz,u,2\n")
    (tmp_path / "typo.yaml").write_text("trainer:\n  max_epoch: 3\n")
    (tmp_path / "null.yaml").write_text("seed: null\n")
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "stopped" / "checkpoints").mkdir(parents=True)
    (tmp_path / "stopped" / "checkpoints" / "last.ckpt").touch()
    (tmp_path / "stopped" / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "results.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=[case[0] for case in MISTAKES]
)
def test_mistakes_are_one_line_before_an_encoder_is_loaded(
    words, message, folder, capsys, monkeypatch
):
    def load_network(*_, **__):
        pytest.fail("an encoder is loaded")

    monkeypatch.setattr("flowbert.encoders.checkpoint.Backbone", load_network)
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert re.search(message, error)
    assert sorted(folder.rglob("*")) == before


# Texts that YAML reads as something else, and some that end in a space or are nothing.
TEXTS = [
    *("true", "1_0", "1.0", "0x1f", "2026-01-01", "~", "yes", ""),
    *("# tag: ", "a: b", "{x}", "{a: 1}", "&a", "*a", "!tag", "|", "@x", "%x"),
    *(" before", "after ", "'q'", '"q"', "a\nb", "句\té", "a,b", "a=b", "-x"),
]
TRAININGS = [("fit", method) for method in TRAINED_METHODS]
OTHERS = [(command, "flow") for command in COMMANDS if command != "fit"]


OF_A_CALL = (
    "run_dir",
    "ckpt_path",
    "explain",
    "format",
    "import",
)  # not in the configuration of a run
GIVEN = {
    "export": ["x", "--to=x"],
    "report": ["x"],
    **{command: ["x"] for command in ("validate", "test", "predict")},
}


@pytest.mark.parametrize(("command", "method"), [*TRAININGS, *OTHERS])
def test_texts_are_taken_as_they_are(command, method, tmp_path):
    """On the line, in the configuration of a run, and None where that says null."""
    options = list_options(command, method)
    names = [name for name, each in options.items() if each.types[0] is str]
    left = ("config", "resume", "method", COMMANDS[command].positional)
    names = [name for name in names if name not in left]
    needed = GIVEN.get(command, [f"--method={method}"] if command == "fit" else [])
    for turn in range(0, len(TEXTS), len(names)):  # each text once
        texts: dict[str, str | None] = dict(
            zip(names, itertools.cycle(TEXTS[turn:] + TEXTS[:turn]), strict=False)
        )
        words = [f"--{name}={text}" for name, text in texts.items()]
        line = read_line(command, [*needed, *words])
        assert {name: line[name] for name in names} == texts
    nothing = [name for name in names if NoneType in options[name].types]
    texts = {**texts, **dict.fromkeys(nothing)}
    line = replace(line, values=line.values | texts)
    config = tmp_path / "config.yaml"
    config.write_text(config_text(read_options(line)))
    again = read_line(command, [*needed[:1], f"--config={config}"])
    kept = [name for name in names if name not in OF_A_CALL]
    assert {name: again[name] for name in kept} == {name: texts[name] for name in kept}


LISTS = {
    (command, name): option
    for command, method in [*TRAININGS, *OTHERS]
    for name, option in list_options(command, method).items()
    if any(get_origin(hint) is list for hint in option.types)
    # One text is one sentence; views are mappings; runs are several words.
    and name not in ("sentences", "encoder.views", "runs")
}


@pytest.mark.parametrize("place", LISTS, ids=" ".join)
def test_lists_are_written_in_one_way(place):
    """With and without brackets, with spaces and quotes; the help shows an example."""
    option = LISTS[place]
    is_text = str in option.types
    one, two = items = ["a", "b=c"] if is_text else [0, 5]
    for text in ("{},{}", "[{},{}]", "[ {}, {} ]", "['{}', \"{}\"]"):
        value = read_value("option", text.format(one, two), option.types)
        assert (as_list(value, "option") if is_text else value) == items
    assert re.search(r"[\w\]],[\w\[]", option.description), option.description


def test_brackets_are_lists_where_they_are_closed():
    """``[INST] {} [/INST]`` is the template of a chat, no list."""
    types = (str, int, list[Any], NoneType)
    for text in ("[[1,12],last]", "[1,12],last"):
        assert read_value("layers", text, types) == [[1, 12], "last"]
    assert read_value("layers", "[1,12]", types) == [1, 12]
    text = "[INST] {} [/INST]"
    assert read_value("template", text, types) == text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_option(command, capsys):
    main([command, "--help"])
    text = capsys.readouterr().out
    for name in list_options(command):
        assert f"--{name} " in text or f"--{name}\n" in text or f"  {name} " in text
    assert "``" not in text
    assert ":func:" not in text


@pytest.mark.usefixtures("folder")
def test_the_trace_behind_any_error_is_shown_on_request(capsys, monkeypatch):
    """Of the line, and of the system."""

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "v.npy")

    monkeypatch.setattr("flowbert.io.os.replace", fail)
    lines = ["fti", "encode --input missing.txt --output v.npy"]
    for words, debug in itertools.product(lines, "01"):
        monkeypatch.setenv("FLOWBERT_DEBUG", debug)
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert stopped.value.code == 2
        text = capsys.readouterr().err
        assert text.splitlines()[-1].startswith("error: ")
        assert ("Traceback (most recent call last):" in text) == (debug == "1")


@pytest.mark.parametrize(
    ("group", "option"),
    [("trainer", "--trainer.accelerator"), ("model", "--model.levels")],
)
def test_a_group_has_its_own_help(group, option, capsys):
    main(["fit", "--help", group])
    text = capsys.readouterr().out
    assert option in text
    assert "--corpus" not in text
    assert "Default: 2." not in text  # Lightning's, of num_sanity_val_steps


WITHOUT_IMPORTS = """
import sys
from flowbert.cli import main
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit:
        pass
    print(*{"torch", "pytorch_lightning", "transformers", "numpy"} & set(sys.modules), words)
"""


@pytest.mark.usefixtures("folder")
def test_help_and_misspelled_options_do_not_wait_for_torch():
    lines = ["--help", *(f"{command} --help" for command in COMMANDS)]
    lines += ["fit --help model", "fit --model.levls 3", "fit --max_epochs 3"]
    lines += ["fit --seed x", "fit --seed -1", "compare --config no.yaml"]
    words = [sys.executable, "-c", WITHOUT_IMPORTS, *lines]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    printed = done.stdout.splitlines()
    assert [line for line in lines if line not in printed] == []
    assert done.stderr.count("error: ") == 5


@pytest.mark.parametrize(("command", "method"), [*TRAININGS, *OTHERS])
def test_every_number_has_limits(command, method):
    options = list_options(command, method).items()
    numbers = {name for name, each in options if {int, float} & {*each.types}}
    assert numbers <= {"encoder.layers", "seeds"}  # their names and lists have others


def test_other_commands_have_the_trainer_of_the_fit():
    words = ["run", "--trainer.accelerator=cpu", "--trainer.callbacks+=RichProgressBar"]
    line = read_line("validate", words)
    given = read_trainer_options(line.trainer, defaults=False)
    assert given.keys() == {"accelerator", "callbacks"}


def test_a_comparison_from_its_file_for_a_paper(folder, capsys, monkeypatch):
    monkeypatch.setenv("FLOWBERT_REPORT", "0")
    (folder / "pairs.csv").write_text("a;b;c\na dog;a cat;1\na man;a bird;2\nit;he;4\n")
    words = ["--methods=raw,centering", "--tasks=pairs.csv", "--columns=a,b,c"]
    main(["compare", *words, "--bootstrap=0", "--output=r.json"])
    first = flowbert.Results.load("r.json")
    main(["compare", "--config=r.json", "--output=again.json", "--format=markdown"])
    again = flowbert.Results.load("again.json")
    assert again.to_markdown() == first.to_markdown()
    assert capsys.readouterr().out.endswith(f"{again.to_markdown()}\n")
    main(["reproduce", "--explain"])
    assert "\n- li2020-2-glove-mean\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["fit", "compare"])
def test_a_configuration_names_what_is_in_memory(kind):
    task = Pairs(["a", "c"], ["b", "d"], [1, 2], name="own")
    given: dict[str, Any] = {"encoder": EncoderOptions(views=[{"layers": 1}])}
    given |= {"tasks": [task, Path("a.csv")], "cache": "a"}
    expected: dict[str, Any] = {
        "corpus": "memory",
        "tasks": ["own", "a.csv"],
        "cache": "a",
    }
    if kind == "fit":
        options: Any = FitOptions(**given, corpus=("a", "b"), run_dir="run")
    else:
        given |= {"corpus": {"mine": ("a", "b"), "nli": "nli"}}
        options = CompareOptions(**given, methods={"x": PCA()})
        expected |= {"corpus": ["mine", "nli"], "methods": {"x": "PCA"}}
    config = config_of(options)
    assert expected.items() <= config.items()
    assert config["encoder"]["views"] == [{"layers": 1}]
    assert not {"run_dir", "model"} & set(config)


@pytest.mark.usefixtures("folder")
def test_variables_of_a_module_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("OF_A_MODULE", "before")
    monkeypatch.setenv("RAYON_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.syspath_prepend(Path.cwd())
    Path("sets_it.py").write_text("import os\nos.environ['OF_A_MODULE'] = 'after'\n")
    before = dict(os.environ)
    main(["compare", "--import", "sets_it", "--threads", "1", "--print_config"])
    assert os.environ == {**before, "OF_A_MODULE": "after"}


def test_the_line_wins_over_configurations(folder):
    (folder / "one.yaml").write_text("method: mlm\nseed: 1\n")
    (folder / "two.yaml").write_text("seed: 2\n")
    words = ["--seed", "3", "--config", "one.yaml", "--config=two.yaml"]
    line = read_line("fit", words)
    assert line["seed"] == 3
    assert read_line("fit", words[2:])["seed"] == 2
    assert line["method"] == "mlm"
    assert read_line("fit", [*words, "--method=sbert"])["method"] == "sbert"


SMALL = {
    "trained": [
        "--max_sentences=64",
        "--data.batch_size=16",
        "--trainer.max_epochs=-1",
        "--trainer.max_steps=2",
        "--trainer.val_check_interval=1.0",
        "--trainer.check_val_every_n_epoch=1",
    ],
    "fit": ["--max_sentences=300"],
    "compare": ["--max_sentences=300"],
}


# The others take the way of one of these; tests/test_rooms.py runs the quickstart.
WAYS = [
    "compare",
    "decoder",
    "layer_sweep",
    "mlm",
    "sbert_nli",
    "simcse_whitened",
]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(each, marks=[] if each.stem in WAYS else pytest.mark.slow)
        for each in CONFIGS
    ],
    ids=lambda config: config.stem,
)
def test_configurations_run(config, folder, capsys):
    first = config.read_text().splitlines()[0]
    command = first.split()[3]
    assert first == f"# python train.py {command} --config configs/{config.name}"
    write_pairs(Path("pairs.tsv"), count=40)
    content = yaml.safe_load(config.read_text())
    kind = "trained" if content.get("method") in TRAINED_METHODS else command
    tasks = ["--tasks=pairs.tsv,lexical:pairs.tsv"]
    if "learned-removal" in str(content.get("methods")):  # from labels of a task
        write_task(Path("data"), {"train": 100, "dev": 20, "test": 40})
        tasks = ["--tasks=Chinese-STS-B,lexical:Chinese-STS-B", "--senteval=data"]
    options = ["--quiet", "--bootstrap=20", *SMALL[kind], *tasks]
    main([command, f"--config={config}", *options])
    assert "Spearman x 100" in capsys.readouterr().out
    assert list(folder.rglob("results.json"))


@pytest.mark.usefixtures("folder")
def test_text_of_a_user_gets_no_verdict_from_the_sample(capsys, monkeypatch):
    """Neither printed nor on the page; a line says how to measure."""
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    sentences = [f"Sentence {i} of {i % 7} words." for i in range(60)]
    Path("sentences.txt").write_text("\n".join(sentences))
    words = ["--config", "recommended_whitening", "--corpus", "sentences.txt"]
    main(["fit", *words, "--run_dir", "run"])
    page = Path("run/report.html").read_text()
    for text in (capsys.readouterr().out, page.partition("<h2")[0]):
        assert "--tasks pairs.csv" in text
        assert not {"SAMPLE", "next:", "use raw"} & set(text.split())
    assert json.loads(Path("run/results.json").read_text())["rows"] == []


def test_a_run_is_repeated_by_its_configuration(folder):
    write_pairs(folder / "pairs.tsv", count=40)
    options = ["--quiet", "--baseline=none", "--bootstrap=20", "--tasks=pairs.tsv"]
    options += [*SMALL["trained"], "--log_to=tensorboard"]
    options += ["--trainer.callbacks+=LearningRateMonitor"]
    main(["fit", "--run_dir", "one", "--model.init", "whitening", *options])
    main(["fit", "--config", "one/config.yaml", "--run_dir", "two"])
    assert "LearningRateMonitor" in (folder / "two" / "config.yaml").read_text()
    one, two = (
        json.loads((folder / run / "results.json").read_text())["rows"]
        for run in ("one", "two")
    )
    assert one == two


def test_a_tilde_is_the_home_folder_in_what_is_written(folder, monkeypatch):
    draw_nothing(monkeypatch)
    monkeypatch.setenv("HOME", str(folder / "home"))
    write_pairs(folder / "pairs.tsv", count=40)
    measured = ["--tasks=pairs.tsv", "--bootstrap=0"]
    main(["fit", "--method=centering", "--run_dir=~/run", *measured])
    main(["compare", "--methods=raw,~/run", "--output=~/all.json", *measured])
    main(["encode", "--model=~/run", "--input=missing.txt", "--output=~/v.npy"])
    main(["report", "~/run"])
    assert not (folder / "~").exists()
    names = {path.name for path in (folder / "home").iterdir()}
    assert names == {"run", "all.json", "all.csv", "all.records", "v.npy"}
    assert (folder / "home" / "run" / "report.html").is_file()


@pytest.mark.usefixtures("folder")
def test_characters_that_a_terminal_lacks_are_replaced(monkeypatch):
    terminal = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    main(["encode", "--input=missing.txt", "--output=tâche.npy"])
    assert terminal.buffer.getvalue() == b"1 vectors of size 128 written to t?che.npy\n"


@pytest.fixture
def interruptible():
    """Python's handler of Ctrl-C, which a shell's background jobs do not have."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(folder, capsys, monkeypatch):
    write_pairs(folder / "pairs.tsv", count=40)
    small = ["--max_sentences", "200", "--corpus", "builtin-sample", "--quiet"]
    small += ["--tasks", "pairs.tsv"]
    steps = ["--trainer.max_epochs", "3", "--checkpoint.every_n_steps", "2"]
    steps += ["--threads", "1"]
    last = Path("stopped-run/checkpoints/last.ckpt")
    step = FlowModule.training_step

    def press(module, *batch):
        if last.exists() or Path("early").exists():
            signal.raise_signal(signal.SIGINT)
        return step(module, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(FlowModule, "training_step", press)
        patch.setattr("sys.argv", ["flowbert"])
        patch.setenv("FLOWBERT_REPORT", "1")
        draw_nothing(patch)
        with pytest.raises(SystemExit) as stopped:
            main(["fit", *small, *steps, "--run_dir", "stopped-run"])
        error = capsys.readouterr().err
        (folder / "early").mkdir()  # is run_dir
        with pytest.raises(SystemExit):
            main(["fit", *small, *steps, "--run_dir", "early"])
        assert "no checkpoint was written; the same" in capsys.readouterr().err
    assert stopped.value.code == 130
    assert "no results yet" in Path("stopped-run/report.html").read_text()
    line = error.splitlines()[-1]
    assert line.startswith(
        f"interrupted: {last} is kept; resume with: flowbert fit --resume"
    )
    assert "Traceback" not in error
    _, *again = shlex.split(line.partition("resume with: ")[2])
    assert again[-2:] == ["--threads", "1"]  # another number rounds differently
    main([*again, "--quiet"])
    assert "Spearman x 100" in capsys.readouterr().out


def test_an_accelerator_is_chosen_where_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    for has_cuda, name in ((True, "cuda"), (False, "mps")):
        monkeypatch.setattr("torch.cuda.is_available", lambda x=has_cuda: x)
        assert choose_device("auto").type == name


CLOSED = ["{python} -m flowbert --version >&-", "{python} -m flowbert typo >&- 2>&-"]


@pytest.mark.parametrize(("line", "code"), [*zip(CLOSED, (0, 2), strict=True)])
def test_a_closed_standard_stream_of_a_process(line, code):
    done = subprocess.run(line.format(python=sys.executable), shell=True, check=False)
    assert done.returncode == code


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.usefixtures("folder")
def test_a_closed_standard_stream_of_a_command(name, monkeypatch):
    monkeypatch.setattr(sys, name, None)
    main(["encode", "--input=wrong.csv", "--column=a", "--output=a.npy"])
    assert Path("a.npy").is_file()
    main(["compare", "--methods=raw", "--tasks=wrong.csv", "--columns=a,b,c"])
    getattr(sys, name).close()
