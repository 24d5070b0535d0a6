import os
from pathlib import Path

import pytest
from helpers.encoders import make_encoder

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.saving import write_encoder


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002])
def test_an_encoder_gets_the_permissions_of_the_umask_and_replaces_an_older_one(tmp_path: Path, umask: int) -> None:
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "source")))
    before = os.umask(umask)
    try:
        for layers in ([0], [1]):
            write_encoder(tmp_path / "run" / "encoder", encoder.backbone, encoder.tokenizer, {"layers": layers})
    finally:
        os.umask(before)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["encoder"]
    for path in (tmp_path / "run", *(tmp_path / "run").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~umask, path
    assert SentenceEncoder.from_pretrained(str(tmp_path / "run" / "encoder")).layers == (1,)


def test_an_error_while_writing_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.from_pretrained(str(make_encoder(tmp_path / "source")))
    target = tmp_path / "run" / "encoder"
    write_encoder(target, encoder.backbone, encoder.tokenizer)

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(encoder.tokenizer, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        write_encoder(target, encoder.backbone, encoder.tokenizer)
    assert [path.name for path in target.parent.iterdir()] == ["encoder"]
    assert SentenceEncoder.from_pretrained(str(target)).key() == encoder.key()
