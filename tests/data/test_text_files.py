"""Lists, globs and lines of text files."""

import pyarrow as pa
import pytest

from flowbert.data.text_files import as_list, expand_files, read_lines

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
    assert [path.name for path in files] == ["c.txt", "9.txt", "10.txt", "d.txt"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_lines_end_with_line_feeds_only(tmp_path, name):
    data = "\ufeffone\u2028 \r\n\n\x0btwo\rthree".encode()
    path = tmp_path / name
    with pa.output_stream(path, compression=COMPRESSED.get(path.suffix)) as file:
        file.write(data)
    assert read_lines(path) == ["one\u2028 ", "", "\x0btwo\rthree"]
