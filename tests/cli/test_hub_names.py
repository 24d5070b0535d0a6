"""Wherever an option takes a run folder, it takes the name of one on the hub: a whole run that was uploaded."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import hub as stand_in
from helpers.encoders import make_encoder
from helpers.hub import Repository, StandIn
from helpers.parsers import PARSERS

from flowbert import SentenceEncoder, Whitening, compare
from flowbert.cli import main
from flowbert.encoders.saving import write_encoder
from flowbert.flows import Glow, save_flow
from flowbert.io.run_folder import RunFolder
from flowbert.methods.embedder import save_encoder

NAME = "user/run"
WEIGHED = ["--encoder.pooling", "idf", "--encoder.layers", "first_last", "--encoder.counts", NAME]
ON_PAIRS = ["--tasks", "PAIRS", "--bootstrap", "0", "--output", "r.json", "--encoder.path", "ENCODER", *WEIGHED]
ANALYZED = ["--corpus", "WORDS", "--encoder.path", "ENCODER", *WEIGHED, "--limit", "100"]
CASES = {  # command and option -> a command line
    ("encode", "model"): ["--model", NAME, "--sentences", '["a cat"]', "--output", "v.npy"],
    ("export", "fitted"): [NAME, "--to", "exported", "--check", "false", "--encoder.path", "ENCODER"],
    ("mteb", "fitted"): [NAME, "--output", "mteb"],
    ("curve", "runs"): ["--runs", NAME],
    ("report", "run"): [NAME, "--output", "page.html"],
    ("evaluate", "flow"): ["--methods", "flow", "--flow", NAME, *ON_PAIRS],
    ("evaluate", "given"): ["--methods", "given", "--given", NAME, *ON_PAIRS],
    ("analyze", "flow"): ["--methods", "flow", "--flow", NAME, *ANALYZED],
    ("analyze", "given"): ["--methods", "given", "--given", NAME, *ANALYZED],
}
OF_ENCODERS = {  # read in one place, whatever the command
    "encoder.path": ["--encoder.path", NAME, "--sentences", '["a cat"]', "--output", "v.npy"],
    "encoder.counts": ["--encoder.path", "ENCODER", *WEIGHED, "--sentences", '["a cat"]', "--output", "v.npy"],
}
LINES = CASES | {("encode", option): line for option, line in OF_ENCODERS.items()}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with stand_in.serving() as serving:
        stand_in.use(monkeypatch, serving, tmp_path)
        monkeypatch.chdir(tmp_path)
        yield serving


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that a run may have; beside it its encoder, pairs and sentences."""
    folder = tmp_path_factory.mktemp("made")
    path = str(make_encoder(folder / "encoder"))
    encoder = SentenceEncoder.from_pretrained(path, layers="first_last", pooling="idf")
    words = ("a", "the", "cat", "dog", "runs", "sleeps", "mat", "big")
    texts = [f"{one} {two} {three}" for one in words for two in words for three in words]
    (folder / "words.txt").write_text("\n".join(texts))
    scored = [
        f"{one}\t{two}\t{number % 6}" for number, (one, two) in enumerate(zip(texts[:40], texts[9:], strict=False))
    ]
    (folder / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *scored]))
    encoder.use_counts(encoder.count_tokens(texts, "target"))
    run = RunFolder(folder / "run")
    vectors = torch.from_numpy(encoder.encode(texts))
    flow = Glow(encoder.dim, levels=1, depth=1, width=4)
    flow.initialize(vectors)
    save_flow(flow, run.model, {})
    Whitening(shrinkage=0.5).fit(vectors).save(run.fitted_map("whitening"))
    save_encoder(run.model, encoder)
    settings = {"layers": [1, 3], "pooling": "idf", "max_length": 128}
    write_encoder(run.encoder, encoder.backbone, encoder.tokenizer, settings, encoder.counts)
    compare(path, "raw", tasks=str(folder / "pairs.tsv"), bootstrap=0, output=run.results)
    head = ",".join(f"flow/STSB/dev/{name}" for name in ("spearman_all", "alignment", "uniformity"))
    run.metrics.write_text(f"step,{head}\n9,0.6,0.3,-2.0\n19,0.7,0.2,-2.5\n")
    return folder


def uploaded(hub: StandIn, run: Path) -> None:
    hub.repositories[NAME] = Repository(private=False)
    there = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    hub.repositories[NAME].commit(there)


def line_of(command: str, option: str, files: Path) -> list[str]:
    put = {"ENCODER": str(files / "encoder"), "WORDS": str(files / "words.txt"), "PAIRS": str(files / "pairs.tsv")}
    return [command, *(put.get(word, word) for word in LINES[command, option])]


def test_every_option_that_takes_a_run_folder_is_here() -> None:
    found = {
        (command, action.dest): action.help
        for command, parser in PARSERS.items()
        for action in parser._actions
        if re.search(r"run folder|folder of a run", action.help or "", re.IGNORECASE)
    }
    of_encoders = {key for key in found if key[1] in OF_ENCODERS}
    assert found.keys() - of_encoders == CASES.keys()
    assert {option for _, option in of_encoders} == OF_ENCODERS.keys()
    assert not [key for key, told in found.items() if "hub" not in (told or "")]


@pytest.mark.parametrize(("command", "option"), LINES)
def test_it_takes_a_name_on_the_hub(command: str, option: str, hub: StandIn, files: Path) -> None:
    if command == "mteb":
        pytest.importorskip("mteb", reason="mteb is not installed (pip install 'flowbert[mteb]')")
    uploaded(hub, files / "run")
    main(line_of(command, option, files))
    assert [path for path in hub.asked if NAME in path]


def test_counts_of_a_name_are_asked_for_once(hub: StandIn, files: Path) -> None:
    uploaded(hub, files / "run")
    line = ["evaluate", "--methods", "raw", "--encoder.path", str(files / "encoder"), *WEIGHED, "--bootstrap", "0"]
    main([*line, "--tasks", f"{files / 'pairs.tsv'},SAMPLE", "--output", "r.json"])
    assert hub.asked.count(f"GET /api/models/{NAME}") == 1


def test_the_page_of_a_run_on_the_hub_lies_here(hub: StandIn, files: Path, tmp_path: Path) -> None:
    uploaded(hub, files / "run")
    (tmp_path / "here").symlink_to(files / "run")
    main(["report", NAME, "--output", "page.html"])
    main(["report", NAME, "here", "--output", "both.html"])
    for page in ("page.html", "both.html"):
        assert NAME in (tmp_path / page).read_text(encoding="utf-8")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".html", ".svg")]
    assert not [path for path in hub.asked if path.endswith(".safetensors")]


def test_a_model_that_is_no_run_has_no_page(hub: StandIn, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uploaded(hub, files / "run" / "model" / "encoder")
    with pytest.raises(SystemExit):
        main(["report", NAME])
    told = capsys.readouterr().err
    assert told.startswith(f"error: {NAME}: neither results.json nor metrics.csv in it; allowed: the folder of a fit")
    assert told.count("\n") == 1
