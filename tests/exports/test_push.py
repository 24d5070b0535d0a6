"""A model goes to a stand-in of the hub and comes back by its name; the token is in no file and no message."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import hub as stand_in
from helpers.encoders import make_encoder
from helpers.hub import TOKEN, Repository, StandIn

from flowbert import SentenceEncoder, Whitening, compare, encode, export, load, training_curves
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.flows import Glow, save_flow
from flowbert.methods.embedder import Embedder, save_encoder

# huggingface_hub 2.4 with httpx2, inside its upload of one file
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
ROOT = Path(__file__).parents[2]
SENTENCES = ["a cat runs", "the dog sleeps on the mat", "été"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with stand_in.serving() as serving:
        stand_in.use(monkeypatch, serving, tmp_path)
        yield serving


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose encoder averages layers, weighs tokens and has a length of its own."""
    folder = tmp_path_factory.mktemp("made")
    options = {"layers": "first_last", "pooling": "idf", "max_length": 20}
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(folder / "encoder")), **options)  # type: ignore[arg-type]
    words = ("a", "the", "cat", "dog", "runs", "sleeps", "mat", "big")
    texts = [f"{one} {two} {three}" for one in words for two in words for three in words[:3]]
    encoder.use_counts(encoder.count_tokens(texts, "target"))
    vectors = encoder.encode(texts)
    whitening = Whitening(shrinkage=0.5).fit(vectors)
    flow = Glow(16, levels=1, depth=1, width=4)
    flow.initialize(whitening.transform(torch.from_numpy(vectors)))
    save_flow(flow, folder / "run" / "model", {})
    whitening.save(folder / "run" / "model" / "whitening.safetensors")
    save_encoder(folder / "run" / "model", encoder)
    return folder / "run"


def pushed(run: Path, tmp_path: Path, name: str = "user/name", method: str = "flow", private: bool = True) -> Path:
    to = tmp_path / f"to-{len(list(tmp_path.iterdir()))}"
    made = export(run, to, method=method, check=False, push=name, private=private)
    assert made.url is not None
    assert made.url.endswith(f"/{name}")
    return to


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_written_is_what_the_hub_has(hub: StandIn, run: Path, tmp_path: Path) -> None:
    folder = pushed(run, tmp_path)
    repository = hub.repositories["user/name"]
    assert repository.private
    assert files_of(folder) == {name: text for name, text in repository.files.items() if name != ".gitattributes"}
    assert 'SentenceTransformer("user/name")' in (folder / "README.md").read_text()


def test_it_loads_by_its_name_as_from_its_folder(hub: StandIn, run: Path, tmp_path: Path) -> None:
    folder, expected = pushed(run, tmp_path), load(run).encode(SENTENCES)
    assert np.allclose(load("user/name").encode(SENTENCES), expected, atol=1e-6)
    output = tmp_path / "vectors.npy"
    sentences = json.dumps(SENTENCES)
    main(["encode", "--model", "user/name", "--sentences", sentences, "--output", str(output)])
    assert np.allclose(np.load(output), expected, atol=1e-6)
    assert not [path for path in hub.asked if "resolve" in path and "Pooling" in path]  # others' files stay there
    assert load(folder).fitted is not None


def test_its_name_is_an_encoder_with_its_layers_pooling_and_counts(hub: StandIn, run: Path, tmp_path: Path) -> None:
    folder = pushed(run, tmp_path)
    here, there = SentenceEncoder.from_pretrained(str(folder)), SentenceEncoder.from_pretrained("user/name")
    assert (there.pooling, there.layers, there.max_length) == ("idf", (1, 3), 20)
    assert there.counts is not None
    assert there.revision == hub.repositories["user/name"].head
    assert there.key() | {"revision": None} == here.key()
    assert np.array_equal(encode(SENTENCES, encoder={"path": "user/name"}), here.encode(SENTENCES))


@pytest.mark.usefixtures("hub")
def test_its_flow_is_evaluated_by_its_name(run: Path, tmp_path: Path, pairs: Path) -> None:
    pushed(run, tmp_path)
    found = compare(
        EncoderSettings("user/name"), "raw,flow", "user/name", tasks=str(pairs), bootstrap=0, store_dir=str(tmp_path)
    )
    assert {row.corpus for row in found.rows if row.method == "flow"} == {"that of user/name"}
    assert {row.method for row in found.rows} == {"raw", "flow"}
    with pytest.raises(UserError, match="the flow in user/name belongs to another encoder"):
        compare("builtin-sample", "flow", "user/name", tasks=str(pairs), bootstrap=0)


def test_a_commit_behind_the_name(hub: StandIn, run: Path, tmp_path: Path) -> None:
    pushed(run, tmp_path, method="whitening")
    first = hub.repositories["user/name"].head
    pushed(run, tmp_path, method="flow")
    assert isinstance(load("user/name").fitted, Glow)
    assert isinstance(load(f"user/name@{first}").fitted, Whitening)
    assert SentenceEncoder.from_pretrained(f"user/name@{first}").revision == first
    with pytest.raises(UserError, match=r"model 'user/name' has no revision 'v9' on the hub"):
        load("user/name@v9")


def test_what_was_fetched_once_is_there_offline(
    hub: StandIn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(run, tmp_path)
    expected = load("user/name").encode(SENTENCES)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert np.array_equal(load("user/name").encode(SENTENCES), expected)
    assert SentenceEncoder.from_pretrained("user/name").pooling == "idf"
    with pytest.raises(UserError, match=r"model 'user/other'.*not in the local .* cache; .*HF_HUB_OFFLINE is set"):
        load("user/other")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    hub.refuses["/api/models"] = 503
    assert np.array_equal(load("user/name").encode(SENTENCES), expected)


def test_a_second_push_leaves_nothing_of_the_first_but_what_is_not_ours(
    hub: StandIn, run: Path, tmp_path: Path
) -> None:
    pushed(run, tmp_path, method="flow")
    repository = hub.repositories["user/name"]
    repository.commit(repository.files | {"LICENSE": b"mine", "onnx/model.onnx": b"mine", "images/a.json": b"mine"})
    second = pushed(run, tmp_path, method="whitening")
    added = {".gitattributes", "LICENSE", "onnx/model.onnx", "images/a.json"}
    assert set(repository.files) == set(files_of(second)) | added
    assert isinstance(load("user/name").fitted, Whitening)


@pytest.mark.parametrize(("there", "asked"), [(False, True), (True, False), (True, True)])
def test_visibility_is_never_changed(hub: StandIn, run: Path, tmp_path: Path, there: bool, asked: bool) -> None:
    hub.repositories["team/name"] = Repository(private=there)
    made = export(run, tmp_path / "to", method="whitening", check=False, push="team/name", private=asked)
    assert hub.repositories["team/name"].private is there
    assert made.note.startswith(f"team/name was there already and is {'private' if there else 'public'}")
    assert ("not changed" in made.note) is (there != asked)


def test_public_if_asked(hub: StandIn, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--method", "whitening", "--check", "false", "--push", "user/open", "--private", "false"]
    main(["export", str(run), "--to", str(tmp_path / "to"), *options])
    assert not hub.repositories["user/open"].private
    assert f"pushed: {hub.url}/user/open\n" in capsys.readouterr().out


def refused(run: Path, to: Path, pattern: str, name: str = "user/name") -> str:
    with pytest.raises(UserError, match=pattern) as caught:
        export(run, to, method="whitening", check=False, push=name)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert TOKEN not in message
    return message


@pytest.mark.parametrize("name", ["name", "user/name/more", "user/", "/name", "user/na me", "./name", "user/--x", ""])
def test_names(hub: StandIn, run: Path, tmp_path: Path, name: str) -> None:
    refused(run, tmp_path / "to", r"^push: received .*; allowed: owner/name", name)
    assert not hub.asked


def test_refusals_come_before_any_work(
    hub: StandIn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("flowbert.runs.export")
    monkeypatch.setattr(module, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    to = tmp_path / "to"
    refused(run, to, r"^push: received 'other/name', but the token is of user; allowed: user, team$", "other/name")
    hub.role = "read"
    refused(run, to, "^push: the token of user may only read")
    hub.refuses = {"whoami": 403}
    refused(run, to, r"^push: .* \(403\)")
    hub.refuses = {"whoami": 500}
    refused(run, to, "^push: user/name: the hub answers 500")
    hub.refuses = {}
    monkeypatch.setenv("HF_TOKEN", TOKEN + "x")
    assert TOKEN not in refused(run, to, r"^push: the hub refuses the token \(401\); needed: HF_TOKEN")
    monkeypatch.delenv("HF_TOKEN")
    refused(run, to, "^push: no token for the hub; needed: HF_TOKEN, or `hf auth login`")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused(run, to, "^push: HF_HUB_OFFLINE is set")
    assert not hub.repositories
    assert not to.exists()


@pytest.mark.usefixtures("hub")
def test_no_hub(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    refused(run, tmp_path / "to", "^push: user/name: the hub cannot be reached, or refuses: .*refused")


@pytest.mark.parametrize("part", ["repos/create", "preupload", "batch", "/objects/", "/commit/"])
def test_a_push_that_fails_leaves_the_folder_and_says_how_to_go_on(
    hub: StandIn, run: Path, tmp_path: Path, part: str
) -> None:
    hub.refuses[part] = 403
    to = tmp_path / "to"
    message = refused(run, to, "^push: .*; .* is written, and `hf upload user/name .*to` sends it$")
    assert "403" in message or "refuses" in message
    assert (to / "modules.json").is_file()


_AS_AT_THE_USERS = """
import os, sys
from flowbert.cli import main
run, to, token = sys.argv[1:]
for number, (name, token) in enumerate([("user/name", token), ("other/name", token), ("user/no", token + "x")]):
    os.environ["HF_TOKEN"] = token
    try:
        main(["export", run, "--to", to + str(number), "--check", "false", "--push", name])
    except SystemExit as stop:
        print(name, "ends with", stop.code)
"""


def test_the_token_is_nowhere(run: Path, tmp_path: Path) -> None:
    """What a process of its own prints and writes, with all that huggingface_hub can log."""
    with stand_in.serving() as hub:
        environment = {**os.environ, **stand_in.environment(hub, tmp_path), "HF_DEBUG": "1"}
        command = [sys.executable, "-c", _AS_AT_THE_USERS, str(run), str(tmp_path / "to"), TOKEN]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        printed = done.stdout + done.stderr
        assert f"pushed: {hub.url}/user/name" in printed
        assert "other/name ends with 2" in printed
        assert "user/no ends with 2" in printed
        written = b"".join([*files_of(tmp_path).values(), *hub.repositories["user/name"].files.values()])
    assert TOKEN not in printed
    assert TOKEN.encode() not in written


def test_its_token_counts_weigh_another_encoder(hub: StandIn, run: Path, tmp_path: Path) -> None:
    pushed(run, tmp_path)
    hub.asked.clear()
    settings = {"path": str(run.parent / "encoder"), "pooling": "idf", "counts": str(run)}
    expected = encode(SENTENCES, encoder=settings)
    for name in ("user/name", f"user/name@{hub.repositories['user/name'].head}"):
        assert np.array_equal(encode(SENTENCES, encoder=settings | {"counts": name}), expected)
    assert not [path for path in hub.asked if path.endswith(".safetensors")]
    with pytest.raises(UserError, match=r"model 'user/other': no such folder here, and no such \(public\) model"):
        encode(SENTENCES, encoder=settings | {"counts": "user/other"})
    hub.asked.clear()
    with pytest.raises(UserError, match=r"user/none\.txt: no such file"):
        encode(SENTENCES, encoder=settings | {"counts": "user/none.txt"})
    assert not hub.asked


@pytest.mark.usefixtures("hub")
def test_a_model_without_token_counts_is_named(run: Path, tmp_path: Path) -> None:
    plain = Embedder(SentenceEncoder.from_pretrained(str(run.parent / "encoder")))
    export(plain, tmp_path / "plain", check=False, push="user/plain")
    with pytest.raises(UserError, match=r"counts: user/plain holds no token counts; allowed: a folder of a `fit`"):
        encode(SENTENCES, encoder={"path": str(run.parent / "encoder"), "pooling": "idf", "counts": "user/plain"})


def test_the_curve_of_a_run_on_the_hub(
    hub: StandIn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = ",".join(f"flow/STSB/dev/{name}" for name in ("spearman_all", "alignment", "uniformity"))
    text = f"step,{head}\n9,0.6,0.3,-2.0\n19,0.7,0.2,-2.5\n"
    pushed(run, tmp_path)
    hub.repositories["user/run"] = Repository(private=False)
    hub.repositories["user/run"].commit({**hub.repositories["user/name"].files, "metrics.csv": text.encode()})
    hub.asked.clear()
    (curve,) = training_curves("user/run")
    assert (curve.run, [point.spearman for point in curve.points]) == ("user/run", [0.6, 0.7])
    assert [path for path in hub.asked if "resolve" in path and "metrics.csv" not in path] == []
    with pytest.raises(UserError, match=r"user/name: no metrics\.csv in it; allowed: the run folder of a fit"):
        training_curves("user/name")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert training_curves("user/run") == [curve]
    # What was fetched in part is completed when all of it is asked for.
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert load("user/run").fitted is not None
