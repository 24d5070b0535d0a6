"""Parts of a user's own, examples/extend: each through the command of its docstring."""

import shlex
import shutil
import sys
import warnings
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

from experiments.small import write_corpus, write_pairs
from flowbert import Model, SentenceEncoder, Whitening
from flowbert.cli import main
from flowbert.data.sample import sample_corpus
from flowbert.extras.analysis import MEASURES, VIEWS, Analysis
from flowbert.extras.analysis.analyze import analyze
from flowbert.extras.report import report
from flowbert.tasks import load_scoring, load_task
from helpers import draw_nothing, refused

ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem: path for path in (ROOT / "examples" / "extend").glob("*.py")}
KINDS = sorted(EXAMPLES.keys() - {"coupling", "format", "module"})
LINES = 40
# Options that make a command small.
SMALL = {
    "fit": "--max_sentences 100 --trainer.max_epochs 1 --run_dir run --bootstrap 0 "
    "--tasks pairs.tsv",
    "compare": "--max_sentences 300 --bootstrap 20 --output run/results.json",
    "analyze": "--corpus corpus.txt --limit 60 --methods raw,whitening:shrinkage=0.1 "
    "--output run/own.analysis.json",
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_pairs(tmp_path / "pairs.tsv")
    write_corpus(tmp_path / "corpus.txt", 300)


def run(kind):
    """Run the command in the docstring of an example; the text in it that names the part."""
    text = EXAMPLES[kind].read_text().split("\n\n")[1]
    words = shlex.split(text.partition('"""')[0].replace("\n", " "))
    assert words[:2] == ["python", "train.py"]
    line = [*words[2:], *shlex.split(SMALL.get(words[2], ""))]
    main(line if "--tasks" in line else [*line, "--tasks", "pairs.tsv"])
    parts = [part for word in words for part in word.split(",")]
    return next(part for part in parts if part.startswith("examples.extend."))


def forget():
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith("examples")]:
        del sys.modules[name]


def test_a_module_of_ones_own_under_lightningcli(monkeypatch):
    text = EXAMPLES["module"].read_text().split("\n\n")[1]
    _, *words = shlex.split(text.partition('"""')[0])
    small = ["--trainer.limit_val_batches=0", "--trainer.logger=false"]
    small += ["--trainer.max_steps=2", "--trainer.enable_progress_bar=false"]
    monkeypatch.setattr("sys.argv", [*words, *small, "--model.learning_rate=0.01"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = run_path(words[0], run_name="__main__")["cli"]
    assert "step/word_norm" in cli.trainer.callback_metrics
    assert cli.model.hparams["learning_rate"] == 0.01
    assert cli.datamodule.batch_size == 32


@pytest.mark.parametrize("kind", KINDS)
def test_its_command_runs_and_the_results_name_it(kind):
    name = run(kind).partition(":")[0]
    written = [*Path("run").glob("*.json"), *Path("run").glob("config.yaml")]
    assert any(name in file.read_text() for file in written)


def test_a_saved_part_is_imported_only_where_the_command_says_so(capsys):
    assert run("coupling") in Path("run/config.yaml").read_text()
    model = Model.load("run")
    assert model.map is not None
    assert "examples.extend.coupling.Bounded:limit=2" in model.map.text
    Path("text.txt").write_text("a dog runs\nthe cat sleeps\n")
    encode = ["encode", "--model", "run", "--input", "text.txt", "--output", "x.npy"]
    forget()
    with pytest.raises(SystemExit):
        main(encode)
    assert "opening a file imports no code" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*encode, "--import", "no_such_module"])
    assert "--import: needs the module no_such_module" in capsys.readouterr().err
    main([*encode, "--import", "examples.extend.coupling"])
    vectors = np.load("x.npy")
    assert vectors.shape == (2, 128)
    assert np.isfinite(vectors).all()


def test_a_task_in_results_is_scored_where_its_module_is_imported():
    shutil.copy(ROOT / "examples" / "extend" / "questions.csv", "quiz.csv")
    source = "examples.extend.task.Duplicates:quiz.csv"
    task = load_task(source)
    assert load_task(source).digest == task.digest
    state, items = task.state(), np.arange(float(task.count))
    assert load_scoring(state).score(items) == task.score(items)
    written = Path("quiz.csv").read_text()
    Path("quiz.csv").write_text(written.replace(",0\n", ",1\n", 1))
    assert load_task(source).digest != task.digest
    forget()
    refused(r"needs the module examples\.extend\.task,", load_scoring, state)


def test_a_measure_is_on_the_page_where_its_module_is_imported(monkeypatch):
    draw_nothing(monkeypatch)
    output, name = Path("own.analysis.json"), "first-directions"
    measures = "spectra,examples.extend.measure.first_directions:count=2"
    options: dict[str, Any] = {"corpus": "corpus.txt", "limit": 50, "methods": "raw"}
    analyze(**options, measures=measures, output=output)
    frames = Analysis.from_json(output).frames
    assert list(frames) == ["spectra", name]
    share = frames["spectra"]["share"][:2].sum()
    assert frames[name]["share"][0] == pytest.approx(share)
    assert f'id="{name}"' in report(output).read_text()
    # Without its module, a file is read and shown; no code of others is imported.
    forget()
    del MEASURES[name], VIEWS[name]
    page = report(output).read_text()
    assert f'id="{name}"' not in page
    assert 'id="spectra"' in page
    assert "examples.extend.measure" not in sys.modules


def test_a_format_is_written_verified_and_described(capsys):
    encoder = SentenceEncoder(max_length=64)
    texts = list(sample_corpus()[:200])
    model = Model(encoder, Whitening(8).fit(encoder.encode(texts)))
    model.save("run/model")
    format = "examples.extend.format.Kernel"
    main(["export", "run", "--to", "to", "--format", format])
    printed = capsys.readouterr().out
    assert "written: to" in printed
    assert "how to load it: to/README.md" in printed
    with np.load("to/whitening.npz") as saved:
        vectors = (encoder.encode(texts) + saved["bias"]) @ saved["kernel"]
    np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-4)
    card = Path("to/README.md").read_text()
    assert "library_name: flowbert" in card
    assert 'numpy.load("to/whitening.npz")' in card


def test_the_command_finds_modules_in_the_current_folder(tmp_path, capsys, monkeypatch):
    """As ``python -m`` does, where the installed command has the folder of its script."""
    shutil.copy(EXAMPLES["map"], tmp_path / "own_map.py")
    words = "compare --methods own_map.Damping --bootstrap 0 --tasks pairs.tsv"
    monkeypatch.setattr("sys.argv", ["bin/flowbert", *words.split()])
    folders = [path for path in sys.path if path not in ("", str(tmp_path))]
    monkeypatch.setattr("sys.path", folders)
    main()
    assert "own_map.Damping" in capsys.readouterr().out


def test_examples_are_short_and_the_document_shows_them():
    page = (ROOT / "docs" / "extending.md").read_text()
    assert EXAMPLES
    for path in EXAMPLES.values():
        text = path.read_text()
        assert f"```python\n{text}```\n" in page
        assert len(text.splitlines()) < LINES
