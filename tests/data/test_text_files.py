"""Lists, globs and lines of text files."""

import gzip
import lzma
import os
import threading

import pyarrow as pa
import pytest

from flowbert.data.corpus import load_corpus
from flowbert.data.text_files import (
    COMPRESSIONS,
    as_list,
    expand_files,
    read_lines,
)
from helpers import refused

COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


def test_a_comma_separates_text_and_not_the_items_of_a_list(tmp_path):
    for name in ("e,f.csv", "x[1].txt", "x1.txt"):
        (tmp_path / name).write_text("x\n")
    assert as_list("a, b", "path") == ["a", "b"]
    assert as_list(["e,f.csv", "x"], "path") == ["e,f.csv", "x"]
    assert expand_files(f"{tmp_path}/e?f.csv") == [tmp_path / "e,f.csv"]
    assert expand_files(tmp_path / "x[1].txt") == [tmp_path / "x[1].txt"]


def test_files_of_globs_and_lists_in_order(tmp_path):
    for name in ("10.txt", "9.txt", "c.txt", "sub/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    files = expand_files(f"{tmp_path}/c.txt, {tmp_path}/*.txt,{tmp_path}/**/d.txt")
    assert [path.name for path in files] == ["c.txt", "10.txt", "9.txt", "d.txt"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_lines_end_with_line_feeds_only(tmp_path, name):
    data = "\ufeffone\u2028 \r\n\n\x0btwo\rthree".encode()
    path = tmp_path / name
    with pa.output_stream(path, compression=COMPRESSED.get(path.suffix)) as file:
        file.write(data)
    assert read_lines(path) == ["one\u2028 ", "", "\x0btwo\rthree"]


def test_a_path_is_one_file_and_a_list_holds_sentences(tmp_path):
    path = tmp_path / "notes, final.txt"
    path.write_text("one\ntwo\n")
    assert load_corpus(path).sentences == ("one", "two")
    assert load_corpus([str(path)]).sentences == (str(path),)
    for pattern in (tmp_path / "*, final.txt", str(tmp_path / "*final.txt")):
        assert load_corpus(pattern).sentences == ("one", "two")
    refused("/notes: no such file", load_corpus, str(path))


@pytest.mark.parametrize("name", ["lines", "lines.txt", "table.csv", "table.jsonl"])
def test_a_pipe_is_read_once(name, tmp_path):
    path = tmp_path / name
    text = '{"text": "one"}\n{"text": "two"}' if "json" in name else "one\ntwo"
    text = f"text\n{text}" if "csv" in name else text
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[text], daemon=True)
    writer.start()
    assert load_corpus(str(path)).sentences == ("one", "two")
    writer.join(10)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_a_damaged_compressed_file(name, tmp_path, monkeypatch):
    """Also of a compression that somebody adds."""
    monkeypatch.setitem(COMPRESSIONS, ".xz", lzma.open)
    path = tmp_path / name
    compress = lzma.compress if "xz" in name else gzip.compress
    path.write_bytes(compress(b"a line\n" * 1000))
    assert read_lines(path) == ["a line"] * 1000
    for content in (path.read_bytes()[:-12], b"not compressed"):
        path.write_bytes(content)
        refused(f"{name}: damaged, or not readable", read_lines, path)
