"""Lists, globs and lines of text files."""

import gzip
from pathlib import Path

import pytest

from flowbert.data.text_files import as_list, expand_files, read_lines


def test_paths_with_commas_are_one_item(tmp_path):
    folder = tmp_path / "a,b"
    (folder / "c, d").mkdir(parents=True)
    (folder / "e,f.csv").write_text("x\n")
    inner, file = str(folder / "c, d"), str(folder / "e,f.csv")
    task = f"answers:{file}"
    several = [file, "x", inner], ["x", inner], ["x", "y"], [task, file], ["x", task]
    for items in ([inner], *several):
        assert as_list(",".join(items), "path", paths=True) == items
    assert as_list(inner, "methods") == inner.replace(", ", ",").split(",")
    assert expand_files(f"{file},{file}") == [Path(file)]
    for name in ("x[1].txt", "x1.txt"):
        (tmp_path / name).write_text("x\n")
    assert expand_files(tmp_path / "x[1].txt") == [tmp_path / "x[1].txt"]


def test_files_of_globs_and_lists_in_order(tmp_path):
    for name in ("10.txt", "9.txt", "c.txt", "sub/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    files = expand_files(f"{tmp_path}/c.txt, {tmp_path}/*.txt,{tmp_path}/**/d.txt")
    assert [path.name for path in files] == ["c.txt", "9.txt", "10.txt", "d.txt"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_end_with_line_feeds_only(tmp_path, name):
    data = "\ufeffone\u2028 \r\n\n\x0btwo\rthree".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert read_lines(path) == ["one\u2028 ", "", "\x0btwo\rthree"]
