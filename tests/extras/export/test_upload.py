"""Uploads, with a stand-in for the hub's client."""

from unittest.mock import MagicMock

import pytest

from extras.export.models import model_of
from flowbert.encoders import SentenceEncoder
from flowbert.extras.export import export, formats
from flowbert.model import Model
from helpers import refused

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:max_length. .* were cut")


@pytest.fixture
def hub(monkeypatch):
    client = MagicMock()
    monkeypatch.setattr(formats, "HfApi", lambda: client)
    return client


@pytest.fixture(scope="module")
def model():
    encoder = SentenceEncoder("builtin-sample", max_length=9)
    return model_of(encoder, "whitening-8")


def test_a_folder_is_uploaded(hub, model, tmp_path):
    folder = export(model, tmp_path / "to", push_to="owner/name")
    hub.create_repo.assert_called_once_with("owner/name", private=True, exist_ok=True)
    options = hub.upload_folder.call_args.kwargs
    assert (options["repo_id"], options["folder_path"]) == ("owner/name", folder)
    page = (folder / "README.md").read_text()
    assert 'SentenceTransformer("owner/name")' in page


def test_no_repository_without_an_export(hub, model, tmp_path):
    unfit = Model(model.encoder.read(pooling="mean:unit=true"))
    to = {"to": tmp_path / "to", "push_to": "owner/name"}
    refused(r"^format: .*mean:unit=true", export, unfit, **to)
    hub.create_repo.assert_not_called()
    assert not list(tmp_path.iterdir())


def test_an_upload_that_fails_leaves_the_whole_folder(hub, model, tmp_path):
    hub.upload_folder.side_effect = ConnectionError("no route\nmore")
    refused(
        r"^push_to: received 'owner/name'.*HF_TOKEN \(.*no route\); .*to is written",
        export,
        model,
        tmp_path / "to",
        push_to="owner/name",
        private=False,
    )
    assert hub.create_repo.call_args.kwargs["private"] is False
    assert Model.load(tmp_path / "to").map_name == "whitening"
