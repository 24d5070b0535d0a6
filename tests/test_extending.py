"""Parts of a user's own, examples/extend: each through the command of its docstring."""

import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from flowbert import Model
from flowbert.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem: path for path in (ROOT / "examples" / "extend").glob("*.py")}
KINDS = sorted(EXAMPLES.keys() - {"coupling", "format"})
LINES = 40
# Options that make a command small.
SMALL = {
    "fit": "--max_sentences 100 --trainer.max_epochs 1 --run_dir run --bootstrap 0",
    "compare": "--max_sentences 300 --bootstrap 20 --output run/results.json",
    "analyze": "--limit 60 --methods raw,whitening:shrinkage=0.1 --output run/own.analysis.json",
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")


def run(kind: str) -> str:
    """Run the command in the docstring of an example; the text in it that names the part."""
    text = EXAMPLES[kind].read_text(encoding="utf-8").split("\n\n")[1]
    words = shlex.split(text.partition('"""')[0].replace("\n", " "))
    assert words[:2] == ["python", "train.py"]
    main([*words[2:], *shlex.split(SMALL.get(words[2], ""))])
    parts = [part for word in words for part in word.split(",")]
    return next(part for part in parts if part.startswith("examples.extend."))


def test_there_is_one_of_each_kind() -> None:
    kinds = {"coupling", "format", "loss", "map", "measure", "pooling", "task"}
    assert EXAMPLES.keys() == kinds


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_example_is_short(kind: str) -> None:
    lines = EXAMPLES[kind].read_text(encoding="utf-8").splitlines()
    assert len(lines) < LINES


@pytest.mark.parametrize("kind", KINDS)
def test_its_command_runs_and_the_results_name_it(kind: str) -> None:
    name = run(kind).partition(":")[0]
    written = [*Path("run").glob("*.json"), *Path("run").glob("config.yaml")]
    assert any(name in file.read_text(encoding="utf-8") for file in written)


def test_a_fit_with_a_pooling() -> None:
    pooling = "examples.extend.pooling.NormWeighted:exponent=2.0"
    small = "--method whitening:shrinkage=0.3 --max_sentences 100 --bootstrap 0"
    small += " --run_dir run"
    main(["fit", "--encoder.pooling", pooling, *small.split()])
    saved = Model.load("run", "raw").encoder
    assert str(saved.pooling) == pooling
    plain = saved.variant(pooling="mean").encode(["A man rides."])
    assert not np.allclose(plain, saved.encode(["A man rides."]))


def test_a_saved_part_is_imported_only_where_the_command_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("coupling") in Path("run/results.json").read_text(encoding="utf-8")
    model = Model.load("run")
    assert model.map is not None
    assert "examples.extend.coupling.Bounded:limit=2" in model.map.text
    Path("text.txt").write_text("a dog runs\nthe cat sleeps\n", encoding="utf-8")
    encode = ["encode", "--model", "run", "--input", "text.txt", "--output", "x.npy"]
    for name in [name for name in sys.modules if name.startswith("examples")]:
        del sys.modules[name]  # as in a new process
    with pytest.raises(SystemExit):
        main(encode)
    assert "opening a file imports no code" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*encode, "--import", "no_such_module"])
    assert "--import: received a name in no_such_module" in capsys.readouterr().err
    main([*encode, "--import", "examples.extend.coupling"])
    vectors = np.load("x.npy")
    assert vectors.shape == (2, 128)
    assert np.isfinite(vectors).all()


def test_the_command_finds_modules_in_the_current_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``python -m`` does, where the installed command has the folder of its script."""
    shutil.copy(EXAMPLES["map"], tmp_path / "own_map.py")
    words = "compare --methods own_map.Damping --bootstrap 0 --max_sentences 200"
    monkeypatch.setattr("sys.argv", ["bin/flowbert", *words.split()])
    folders = [path for path in sys.path if path not in ("", str(tmp_path))]
    monkeypatch.setattr("sys.path", folders)
    main()
    assert "own_map.Damping" in capsys.readouterr().out


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_document_shows_the_file(kind: str) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLES[kind].read_text(encoding='utf-8')}```\n" in page
