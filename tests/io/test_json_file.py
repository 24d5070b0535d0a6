"""Whatever is wrong with a JSON file, one line names it."""

from pathlib import Path

import pytest

from flowbert.errors import UserError
from flowbert.io.json_file import read_json

BAD = {
    "cut short": (b'{"a": 1', "not JSON, or damaged (.*); needed: this"),
    "nothing": (b"", "not JSON, or damaged (.*); needed: this"),
    "other bytes": (b"\xff\xfe\x00", "not JSON, or damaged (.*); needed: this"),
    "deep": (b"[" * 100_000, "not JSON, or damaged (.*); needed: this"),
    "a list": (b"[1]", "holds list; needed: dict, this"),
    "null": (b"null", "holds NoneType; needed: dict, this"),
}


@pytest.mark.parametrize("content", BAD)
def test_what_is_wrong_is_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_bytes(BAD[content][0])
    with pytest.raises(UserError, match=BAD[content][1]) as raised:
        read_json(path, needed="this")
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it\.json: cannot be read \(No such file or directory\); needed: the file as"):
        read_json(tmp_path / "it.json")
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)"):
        read_json(tmp_path)


def test_what_it_holds_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_text('{"ä": [1, null]}', encoding="utf-8")
    assert read_json(path) == {"ä": [1, None]}
