"""Lines of text files, and the file and line in every error."""

import gzip
import re
from pathlib import Path

import pytest

from flowbert.data import text
from flowbert.data.text import read_lines
from flowbert.errors import UserError
from flowbert.progress import Step, shown


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_without_byte_order_mark_and_line_ends(tmp_path: Path, name: str) -> None:
    data = "\ufeffA dög.\r\n\r\nline\u2028separator\x85inside\nlast".encode()
    assert read_lines(_write(tmp_path / name, data)) == ["A dög.", "", "line\u2028separator\x85inside", "last"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.txt: the file is empty"),
        (b"good\nbad \xff byte\n", "a.txt:2: byte 0xff at position 5 is not UTF-8; allowed: UTF-8 text"),
        (b"good\ncut \xc3", "a.txt:2: byte 0xc3 at position 5 is not UTF-8"),
        (b"PK\x03\x04\n\x00\x01\n", "a.txt:2: binary file (a zero byte in this line); allowed: UTF-8 text"),
    ],
)
def test_bad_bytes_name_file_and_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/{message}")):
        read_lines(_write(tmp_path / "a.txt", data))


def test_missing_file_and_damaged_gzip(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"b\.txt: no such file"):
        read_lines(tmp_path / "b.txt")
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"not gzip")
    with pytest.raises(UserError, match=r"a\.txt\.gz:1: not a complete gzip file"):
        read_lines(path)
    whole = gzip.compress(b"line\n" * 1000)
    path.write_bytes(whole[:-12])
    with pytest.raises(UserError, match=r"a\.txt\.gz:\d+: not a complete gzip file"):
        read_lines(path)
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(UserError, match=r"a\.txt\.gz: the file is empty"):
        read_lines(path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_progress_of_a_large_file_is_in_its_own_bytes(
    tmp_path: Path, name: str, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_MB", 1)
    monkeypatch.setattr(text, "_LOOK_EVERY", 10)
    path = _write(tmp_path / name, b"a line\n" * 100)
    with shown():
        assert len(read_lines(path)) == 100
    (step,) = steps
    assert (step.what, step.total, step.done) == (f"Reading {name}", path.stat().st_size, path.stat().st_size)
