"""Uploads, with a stand-in for the hub's client."""

from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from exports.models import FLOW, TEXTS, fit_map
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.exports import export
from flowbert.model import Model

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:sentences. some are longer")

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")


class Hub:
    """What a client was asked for; ``refuses`` has the errors of its calls."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}
        self.refuses: dict[str, Exception] = {}

    def __getattr__(self, call: str) -> Any:
        def record(*names: str, **options: Any) -> None:
            self.calls[call] = (*names, options)
            if call in self.refuses:
                raise self.refuses[call]

        return record


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    return made


@pytest.fixture(scope="module")
def model() -> Model:
    encoder = SentenceEncoder("builtin-sample", max_length=9)
    return Model(encoder, fit_map("whitening-8", encoder.encode(TEXTS)))


def test_a_folder_is_uploaded(hub: Hub, model: Model, tmp_path: Path) -> None:
    folder = export(model, tmp_path / "to", push_to="owner/name")
    created = {"private": True, "exist_ok": True}
    assert hub.calls["create_repo"] == ("owner/name", created)
    (options,) = hub.calls["upload_folder"]
    assert (options["repo_id"], options["folder_path"]) == ("owner/name", folder)
    page = (folder / "README.md").read_text()
    assert 'SentenceTransformer("owner/name")' in page
    # Files of an earlier export are deleted, those of others stay.
    own = ["modules.json", "model/flow.safetensors", "12_Dense/config.json"]
    others = ["LICENSE", "onnx/model.onnx", "1_images/a.png", "config.json"]
    patterns = options["delete_patterns"]
    deleted = filter_repo_objects([*own, *others], allow_patterns=patterns)
    assert list(deleted) == own


@pytest.mark.parametrize(
    "error", [OfflineModeIsEnabled("offline"), ConnectionError("no route\nmore")]
)
def test_a_hub_that_refuses_leaves_nothing(
    error: Exception, hub: Hub, model: Model, tmp_path: Path
) -> None:
    hub.refuses["whoami"] = error
    with pytest.raises(UserError, match=r"^push_to: received 'owner/name'.*HF_TOKEN"):
        export(model, tmp_path / "to", push_to="owner/name")
    assert not list(tmp_path.iterdir())
    assert list(hub.calls) == ["whoami"]


def test_no_repository_without_something_to_upload(
    hub: Hub, model: Model, tmp_path: Path
) -> None:
    unfit = Model(model.encoder, fit_map(f"{FLOW}:coupling=affine", np.ones((9, 128))))
    with pytest.raises(UserError, match=r"^format: .*affine"):
        export(unfit, tmp_path / "to", push_to="owner/name")
    with pytest.raises(UserError, match=r"^push_to: received 'a/b/c'"):
        export(model, tmp_path / "to", push_to="a/b/c")
    assert "create_repo" not in hub.calls
    assert not list(tmp_path.iterdir())


def test_an_upload_that_fails_leaves_the_whole_folder(
    hub: Hub, model: Model, tmp_path: Path
) -> None:
    hub.refuses["upload_folder"] = ConnectionError()
    with pytest.raises(UserError, match=r"^push_to: .*ConnectionError.*to is written"):
        export(model, tmp_path / "to", push_to="owner/name", private=False)
    assert hub.calls["create_repo"][1]["private"] is False
    assert Model.load(tmp_path / "to").map_name == "whitening"
