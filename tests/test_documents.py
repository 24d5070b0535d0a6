"""What the documents show works: Python blocks run, options exist, links lead somewhere."""

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from flowbert.cli.parse import read_line
from flowbert.data.corpus import load_corpus
from flowbert.data.sample import sample_encoder_path, sample_pairs
from flowbert.training.trainer_options import read_trainer_options

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))

_BLOCK = re.compile(r"(<!-- not run.*?-->\n)?```(\w*)\n(.*?)```", re.DOTALL)


def relative(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    """Blocks of a language that are not marked as not run."""
    for marked, name, text in _BLOCK.findall(path.read_text()):
        if name == language and not marked:
            yield text


def scripts(path):
    """Python blocks that run alone, each with those that say that they go on from it."""
    found: list[list[str]] = []
    for text in blocks(path, "python"):
        if text.startswith("# continued\n"):
            found[-1].append(text)
        else:
            found.append([text])
    return found


SCRIPTS = [
    pytest.param(path, parts, id=f"{path.relative_to(ROOT)}-{number}")
    for path in DOCUMENTS
    for number, parts in enumerate(scripts(path), 1)
]


def shown(path):
    """Texts with commands: blocks of a document, comments of a configuration."""
    if path.suffix != ".yaml":
        yield from blocks(path, "bash")
        return
    comments = re.sub(r"^# *", "", path.read_text(), flags=re.MULTILINE)
    calls = re.findall(r"^python train.py (?:.*\\\n)*.*$", comments, re.MULTILINE)
    yield "\n".join(calls)


def commands(path):
    """Command and options of each line that calls flowbert."""
    for text in shown(path):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for start in ("flowbert", "train.py"):
                if start in words and "import" not in words:
                    yield words[words.index(start) + 1 :]


@pytest.mark.parametrize(("path", "parts"), SCRIPTS)
def test_python_blocks_run(path, parts, tmp_path, monkeypatch):
    """Each alone, in a new folder, with the first pairs of the sample."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [path.name])
    name = "flowbert.data.scored_pairs.sample_pairs"
    monkeypatch.setattr(name, lambda split: sample_pairs(split)[:150])
    # A folder here goes before the model of that name on the hub.
    Path("bert-base-uncased").symlink_to(sample_encoder_path())
    shutil.copytree(sample_encoder_path(), "my-decoder")
    Path("my-decoder/chat_template.jinja").write_text(
        "[CLS] user {{ messages[-1].content }} [SEP] assistant"
    )
    sentences = load_corpus("builtin-sample").sample(500, seed=0).sentences
    Path("sentences.txt").write_text("\n".join(sentences))
    known = {"__name__": path.stem}
    for text in parts:
        if "import faiss\n" in text:
            pytest.importorskip("faiss")
        exec(compile(text, path.name, "exec"), known)
    if "CSVLogger" in known:
        (metrics,) = tmp_path.rglob("metrics.csv")
        logged = pd.read_csv(metrics).filter(like="spearman")
        assert logged.notna().any().any()


@pytest.mark.parametrize("path", [*DOCUMENTS, *CONFIGS], ids=relative)
def test_commands_are_understood(path, monkeypatch):
    """Options and their types; names of files are made up."""
    monkeypatch.chdir(ROOT)
    for command, *words in commands(path):
        if "--resume" in words:  # names a run
            place = words.index("--resume")
            del words[place : place + 2]
        line = read_line(command, words)
        assert line.values or line.trainer or not words
        if line.trainer:
            read_trainer_options(line.trainer, defaults=True)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_files_exist(path):
    """Pictures, and files that a text names; ``make docs`` follows the links."""
    text = path.read_text()
    for picture in re.findall(r'src(?:set)?="([^"]+)"', text):
        assert (path.parent / picture).exists(), picture
    for name in re.findall(
        r"\b(?:tests|benchmarks|configs|flowbert)/[\w/]+\.\w+", text
    ):
        assert (ROOT / name).exists(), name
