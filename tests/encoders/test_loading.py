import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import huggingface_hub
import pytest
import torch
from helpers.encoders import make_encoder
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils._paths import filter_repo_objects
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "bert")


def fails(path: object, pattern: str, **options: Any) -> None:
    """Loading fails with one line that matches."""
    with pytest.raises(UserError, match=pattern) as caught:
        SentenceEncoder.from_pretrained(str(path), **options)
    assert len(str(caught.value).splitlines()) == 1


def drop_weights(folder: Path, pattern: str) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not re.search(pattern, name)}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize("path", ["", "./nothing/here", "/nothing/here", "~/nothing/here", "a/b/c"])
def test_no_such_folder(path: str) -> None:
    fails(path, rf"{re.escape(repr(path))}: no such folder; allowed: ")


@pytest.mark.parametrize("name", ["bert-base-uncasedd", "someone/some-bert"])
def test_hub_name_offline(name: str) -> None:
    fails(name, rf"'{name}': no such folder here, and not in the local .* cache; .*HF_HUB_OFFLINE is set; allowed: ")


def test_hub_revision_offline() -> None:
    fails("someone/some-bert", "'someone/some-bert', revision 'abc': no such folder", revision="abc")


def test_neither_folder_nor_hub_name() -> None:
    fails("no good name", "not a hub name")


def test_a_file(folder: Path) -> None:
    fails(folder / "config.json", "is a file; allowed: the folder")


def test_revision_of_a_folder(folder: Path) -> None:
    fails(folder, "revision: received 'main' for the folder", revision="main")


@pytest.mark.parametrize(
    ("file", "what"),
    [("config.json", "config.json"), ("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")],
)
def test_incomplete_folder(folder: Path, file: str, what: str) -> None:
    (folder / file).unlink()
    fails(folder, rf"has no {what}; needed in its folder: ")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\x00garbage", b"{}"])
def test_damaged_file(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    fails(folder, rf"{re.escape(repr(str(folder)))}")


def test_custom_code_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('ran')")
    fails(folder, "cannot be read: ")


def test_a_missing_layer_is_an_error(folder: Path) -> None:
    drop_weights(folder, r"layer\.1\.output\.dense")
    fails(folder, r"lacks 2 weights of the encoder, first 'encoder.layer.1.output.dense.bias'")


def test_a_layer_of_another_size_is_an_error(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.output.dense.bias"] = torch.zeros(3)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    fails(folder, "cannot be read: ")


def test_a_missing_pooler_matters_to_cls_pooler_only(folder: Path) -> None:
    key = SentenceEncoder.from_pretrained(str(folder)).key()
    drop_weights(folder, "pooler")
    assert SentenceEncoder.from_pretrained(str(folder)).key() == key
    fails(
        folder, r"needs a pooler.* lacks its weights \(pooler.dense.bias, pooler.dense.weight\)", pooling="cls_pooler"
    )


@pytest.mark.parametrize("architecture", ["distilbert", "electra", "deberta"])
def test_no_pooler_in_the_architecture(tmp_path: Path, architecture: str) -> None:
    fails(make_encoder(tmp_path, architecture), r"has none; allowed: mean, cls, max", pooling="cls_pooler")


def test_a_masked_language_model_loads_without_a_word(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder))  # type: ignore[no-untyped-call]
    model.save_pretrained(tmp_path / "mlm")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "mlm")
    capfd.readouterr()
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        encoder = SentenceEncoder.from_pretrained(str(tmp_path / "mlm"))
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder.backbone.state_dict()[name], model.state_dict()[f"bert.{name}"])
    assert "".join(capfd.readouterr()) == ""
    assert not [record for record in caplog.records if record.name.startswith("transformers")]


def test_encoder_decoder(folder: Path) -> None:
    config = {
        "model_type": "t5",
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 1,
        "num_heads": 2,
        "vocab_size": 99,
    }
    (folder / "config.json").write_text(json.dumps(config))
    fails(folder, "is of type 't5'; allowed: a text encoder")


def test_tokenizer_of_another_model(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["more"])
    tokenizer.save_pretrained(folder)
    fails(folder, r"its tokenizer has 22 tokens, the weights only 21")


def test_unknown_dtype(folder: Path) -> None:
    fails(folder, r"dtype: received 'float23'; allowed: float32, .*did you mean 'float32'", dtype="float23")


def test_cached_model_offline(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "hub" / "models--someone--some-bert"
    shutil.copytree(folder, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    encoder = SentenceEncoder.from_pretrained("someone/some-bert")
    assert (encoder.path, encoder.revision) == ("someone/some-bert", commit)
    assert encoder.key() | {"revision": None} == SentenceEncoder.from_pretrained(str(folder)).key()
    fails("someone/some-bert", "revision 'v2': no such folder", revision="v2")


def _hub_answers(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def model_info(*_: object, **_options: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)


def test_what_the_hub_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    response: Any = SimpleNamespace(headers={}, request=None)
    for answer, pattern in (
        (RepositoryNotFoundError("?", response=response), "no such folder here, and no such"),
        (RevisionNotFoundError("?", response=response), "has no revision 'v2' on the hub"),
        (httpx.ConnectError("[Errno -2] no name"), r"hub cannot be reached \(\[Errno -2\] no name\); allowed: "),
    ):
        _hub_answers(monkeypatch, answer)
        fails("someone/some-bert", pattern, revision="v2")


def test_only_the_needed_files_are_fetched_and_the_commit_is_pinned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx", "tokenizer.json"]
    names += ["modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "0_Transformer/tf_model.h5"]
    _hub_answers(monkeypatch, SimpleNamespace(sha="c0ffee", siblings=[SimpleNamespace(rfilename=n) for n in names]))
    asked: dict[str, Any] = {}

    def snapshot_download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(shutil.copytree(folder, folder.parent / "c0ffee"))  # as the cache calls its folders

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    encoder = SentenceEncoder.from_pretrained("someone/some-bert", revision="main")
    assert (encoder.revision, asked["revision"]) == ("c0ffee", "main")
    assert list(filter_repo_objects(names, allow_patterns=asked["allow_patterns"])) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        *("modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors"),
    ]
